"""G8: which addresses may be called, on values."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_base.errors import ConfigProblem
from hermes_net.address_rules import (
    AddressFault,
    AddressRules,
    IpAddress,
    find_fault,
    find_meant,
    is_public,
    read_numeric,
    read_rules,
)

NO_RULES = AddressRules()
EVERYTHING = read_rules(["0.0.0.0/0", "::/0"])

PRIVATE = [
    *("127.0.0.1", "127.8.9.1", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1", "100.64.0.1", "0.0.0.0"),
    *("169.254.0.1", "224.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.2.1", "240.0.0.1", "::", "::1", "fe80::1"),
    *("fc00::1", "fd12::1", "ff02::1", "2001:db8::1", "2001::1", "fec0::1", "100::1", "fe80::1%1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "::10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::1"),
    *("2002:7f00:1::", "2002:a00:1::5", "2002:c0a8:101::1", "::ffff:0:192.168.0.1"),
]
PUBLIC = [
    *("8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450:4001::5"),
    *("::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"),
]
METADATA = [
    *("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254"),
    *("::ffff:169.254.169.254", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::", "::169.254.169.254"),
    *("64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:12a9:fe:a9fe::", "64:ff9b:1:1:a9:fea9:fe00:0"),  # /48, /56, /64
    *("64:ff9b:1::169.254.169.254", "64:ff9b:1:2:3:4:169.254.170.2"),  # /96
    *("2001:0:a9fe:a9fe::", "2001:0:808:808:0:0:5601:5601"),  # Teredo: its server, its client
    *("fe80::5efe:a9fe:a9fe", "2a00:1450:4001::200:5efe:a9fe:a9fe"),  # ISATAP
    *("169.254.42.42", "169.254.0.23", "fd00:42::42", "fe80::a9fe:a9fe", "fe80::a9fe:a9fe%1"),
]


def fault_of(host: str, address: IpAddress, rules: AddressRules) -> AddressFault:
    found = find_fault(host, address, rules)
    assert found is not None
    return found


@pytest.mark.parametrize("text", PRIVATE)
def test_private_addresses_are_refused_in_every_dress(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert not is_public(address)
    assert fault_of("host.example", address, NO_RULES).why.startswith("it leads to a private address")
    assert "network.private" in fault_of("host.example", address, NO_RULES).fix


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_may_be_called(text: str) -> None:
    assert find_fault("host.example", ipaddress.ip_address(text), NO_RULES) is None


@pytest.mark.parametrize("text", METADATA)
@pytest.mark.parametrize("rules", [NO_RULES, EVERYTHING, read_rules(["host.example"])])
def test_metadata_is_never_called(text: str, rules: AddressRules) -> None:
    fault = fault_of("host.example", ipaddress.ip_address(text), rules)
    assert "cloud" in fault.why
    assert fault.fix == "", "no setting allows it, so none is named"


@pytest.mark.parametrize("name", ["metadata.google.internal", "METADATA.Google.Internal.", "metadata", "instance-data"])
def test_names_of_metadata_are_never_called(name: str) -> None:
    assert "cloud" in fault_of(name, ipaddress.ip_address("8.8.8.8"), EVERYTHING).why


@pytest.mark.parametrize(
    ("entry", "host", "address"),
    [
        ("nas.lan", "NAS.lan.", "192.168.1.9"),
        ("10.0.0.0/8", "anything.example", "10.9.8.7"),
        ("10.0.0.0/8", "anything.example", "::ffff:10.9.8.7"),
        ("10.1.2.3/8", "anything.example", "10.9.8.7"),
        ("127.0.0.1", "localhost", "127.0.0.1"),
        ("fd00::/8", "anything.example", "fd12::1"),
        ("::1", "localhost", "::1"),
    ],
)
def test_what_the_settings_name_may_be_called(entry: str, host: str, address: str) -> None:
    rules = read_rules([entry])
    assert find_fault(host, ipaddress.ip_address(address), rules) is None
    assert find_fault("other.example", ipaddress.ip_address("192.168.77.1"), rules) is not None


@pytest.mark.parametrize("entry", ["", "http://nas.lan", "nas lan", "10.0.0.0/99", "*", "0x7f.1", "2130706433"])
def test_an_entry_that_is_none_is_told(entry: str) -> None:
    with pytest.raises(ConfigProblem, match=r"network\.private"):
        read_rules([entry])


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("0", "0.0.0.0"),
        ("169.254.43518", "169.254.169.254"),
    ],
)
def test_odd_spellings_are_read_as_the_system_reads_them(host: str, address: str) -> None:
    assert read_numeric(host) == ipaddress.ip_address(address)


@pytest.mark.parametrize("host", ["example.com", "1.2.3.4.5", "08.example", "1.2.3.999", "0x", "dead.beef", ""])
def test_what_is_no_address_is_looked_up(host: str) -> None:
    assert read_numeric(host) in (None, ipaddress.ip_address("0.0.0.0"))  # the C library takes "0x" for 0
    assert host == "0x" or read_numeric(host) is None


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:0:0", "::ffff:0:0:0", "64:ff9b::", "2002::"]))
def test_an_address_in_another_is_judged_as_itself(inner: ipaddress.IPv4Address, prefix: str) -> None:
    shift = 80 if prefix == "2002::" else 0
    outer = ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) | int(inner) << shift)
    assert find_meant(outer) == inner
    for rules in (NO_RULES, EVERYTHING):
        assert find_fault("host.example", outer, rules) == find_fault("host.example", inner, rules)


@given(st.ip_addresses())
def test_what_the_library_calls_private_is_never_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    meant = find_meant(address)
    if meant.is_loopback or meant.is_link_local or meant.is_multicast or meant.is_unspecified or meant.is_reserved:
        assert not is_public(address)
    if isinstance(meant, ipaddress.IPv4Address) and not meant.is_global:
        assert not is_public(address)
