# Three namespaces, a bridge and netem both ways, then packets.py: `sh packets.sh PYTHON`. As few programs as will do,
# since starting one costs a guest milliseconds.
here=$(dirname "$0")
ip -batch - <<END
netns add sender
netns add receiver
netns add emulator
link add test0 netns sender address 02:00:00:00:00:01 type veth peer name to-sender netns emulator
link add test0 netns receiver address 02:00:00:00:00:02 type veth peer name to-receiver netns emulator
END
ip -n emulator -batch - <<END
link add channel type bridge stp_state 0 mcast_snooping 0 forward_delay 0
link set to-sender master channel up
link set to-receiver master channel up
link set channel up
END
tc -n emulator -batch - <<END
qdisc add dev to-receiver root netem delay 25ms rate 10mbit corrupt 1% limit 20000
qdisc add dev to-sender root netem delay 25ms rate 10mbit corrupt 1% limit 20000
END
ip -n sender -batch - <<END
address add 10.77.0.1/24 dev test0
link set test0 up
neighbour add 10.77.0.2 lladdr 02:00:00:00:00:02 nud permanent dev test0
END
ip -n receiver -batch - <<END
address add 10.77.0.2/24 dev test0
link set test0 up
neighbour add 10.77.0.1 lladdr 02:00:00:00:00:01 nud permanent dev test0
END
"$1" -ISE "$here/packets.py" >packets.json
