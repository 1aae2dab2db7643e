"""Public and private addresses, in every spelling."""

from __future__ import annotations

import ipaddress
import socket

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from hermes_trio.tools.web.addresses import LOOKUP_SECONDS, AddressRefused, is_public, public_addresses

INSIDE = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "100.127.255.255", "0.0.0.0", "0.1.2.3", "224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.0.192",  # noqa: S104
    "198.18.0.1", "168.63.129.16", "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1",
    "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::", "2001:db8::1", "fec0::1", "100::1", "4000::1",
]  # fmt: skip
OUTSIDE = ["93.184.216.34", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450:4001::1",
           "::ffff:8.8.8.8", "64:ff9b::808:808"]  # fmt: skip
SPELLINGS = [
    "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "0x7F.1", "0",
    "127.0.0.1.", "[::1]", "[::ffff:7f00:1]", "3232235777", "0xa9fea9fe", "0xA9.0376.43518", "00000177.0.0.1",
]  # fmt: skip
NAMES = [
    "localhost", "LOCALHOST", "localhost.", "a.localhost", "metadata.google.internal", "Metadata",
    "printer.local", "x.corp", "router.home.arpa", "",
]  # fmt: skip


async def nobody(host: str, port: int) -> list[str]:
    raise AssertionError(f"{host} was looked up")


@pytest.mark.parametrize("text", INSIDE)
def test_a_private_address_is_not_public(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", OUTSIDE)
def test_a_public_address_is_public(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:0:0", "64:ff9b::"]))
def test_an_ipv6_address_is_as_public_as_the_ipv4_address_in_it(
    inner: ipaddress.IPv4Address, prefix: str
) -> None:
    wrapped = ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) | int(inner))
    assert is_public(wrapped) == is_public(inner)


@given(st.ip_addresses())
def test_no_address_that_python_calls_private_is_public(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if address.is_private or address.is_multicast or address.is_loopback or address.is_link_local:
        assert not is_public(address) or getattr(address, "ipv4_mapped", None)


@pytest.mark.parametrize("host", SPELLINGS + NAMES + [text for text in INSIDE if "%" not in text])
async def test_no_spelling_of_a_private_host_is_accepted(host: str) -> None:
    with pytest.raises(AddressRefused):
        await public_addresses(host, 80, nobody)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["{}", "0x{:x}", "0{:o}"]))
async def test_a_numeric_host_is_read_as_the_system_reads_it(number: int, how: str) -> None:
    text = how.format(number)
    meant = ipaddress.ip_address(socket.inet_aton(text))
    try:
        found = await public_addresses(text, 80, nobody)
    except AddressRefused:
        assert not is_public(meant)
    else:
        assert found == [meant]


async def test_a_name_with_one_private_address_is_refused() -> None:
    async def both(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "127.0.0.1"]

    with pytest.raises(AddressRefused, match="private network"):
        await public_addresses("example.org", 80, both)


async def test_a_name_without_an_address_is_refused(autojump_clock: MockClock) -> None:
    async def none(host: str, port: int) -> list[str]:
        return []

    async def fails(host: str, port: int) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    async def hangs(host: str, port: int) -> list[str]:
        await trio.sleep_forever()
        raise AssertionError

    for lookup, why in ((none, "no address"), (fails, "not known"), (hangs, "too long")):
        with pytest.raises(AddressRefused, match=why):
            await public_addresses("example.org", 80, lookup)
    assert trio.current_time() == LOOKUP_SECONDS
