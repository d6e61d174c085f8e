"""What follows from the choices of a CFDP transfer."""

import pytest

from owlt.agents.cfdp.settings import Settings


def test_a_timer_covers_the_light_the_channel_and_the_margin() -> None:
    settings = Settings(rate_bps=9600, rtt_s=2.5, segment_bytes=1000, timer_margin_s=0.1)

    assert (
        settings.ack_interval_s
        == settings.nak_interval_s
        == pytest.approx(2.5 + 2 * 8 * (1000 + 14 + 42) / 9600 + 0.1, abs=0.001)
    )


def test_a_timer_is_never_shorter_than_what_it_covers() -> None:
    settings = Settings(rate_bps=0, rtt_s=0.0501234, timer_margin_s=0)

    assert settings.ack_interval_s == settings.nak_interval_s == 0.051


def test_five_segments_lost_in_a_row_are_no_pause() -> None:
    settings = Settings(rate_bps=9600, rtt_s=2.5)

    assert settings.gap_s > 6 * 8 * (1000 + 14 + 42) / 9600


def test_a_pdu_has_room_for_a_nak_however_small_the_segments() -> None:
    assert Settings(rate_bps=0, rtt_s=0, segment_bytes=1).largest_pdu_bytes >= 27


def test_timers_can_be_chosen_apart() -> None:
    settings = Settings(rate_bps=0, rtt_s=1, timer_margin_s=0.5, ack_timer_s=3, nak_timer_s=4.0001)

    assert (settings.answer_s, settings.ack_interval_s, settings.nak_interval_s) == (1.5, 3, 4.001)


def test_the_peer_may_be_silent_for_ten_of_the_longer_timer() -> None:
    assert Settings(rate_bps=0, rtt_s=1, ack_timer_s=3, nak_timer_s=4).silence_limit_s == 70


def test_a_receiver_gives_up_after_the_sender_that_stays_to_answer() -> None:
    settings = Settings(rate_bps=0, rtt_s=1)

    assert settings.give_up_s == 2 * settings.linger_s == 8 * settings.ack_interval_s


def test_a_chosen_limit_of_silence_is_kept() -> None:
    assert Settings(rate_bps=0, rtt_s=0, idle_limit_s=7).silence_limit_s == 7
