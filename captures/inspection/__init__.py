"""All results of one transfer: from both captures, or from one.

The steps belong to the folders below it; here they are put in order.
"""
