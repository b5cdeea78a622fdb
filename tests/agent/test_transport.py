"""Shared pools: one for an address and key, closed with its last user; the SDK client is only a reference to it."""

import gc

from agent import clients, transport


def test_clients_of_one_address_and_key_share_a_pool_that_ends_with_the_last() -> None:
    """F1"""
    before = transport.count_pools()
    one = clients.build_openai_client(api_key="a", base_url="http://127.0.0.1:1/v1")
    two = clients.build_openai_client(api_key="a", base_url="http://127.0.0.1:1/v1")
    other = clients.build_openai_client(api_key="b", base_url="http://127.0.0.1:1/v1")
    assert one._client is two._client
    assert other._client is not one._client
    assert transport.count_pools() == before + 2
    clients.release_client(one)
    assert not two._client.is_closed
    clients.release_client(one)  # a second release is none
    shared = two._client
    clients.release_client(two)
    assert shared.is_closed
    clients.release_client(other)
    assert transport.count_pools() == before


def test_a_client_that_is_forgotten_gives_its_pool_back() -> None:
    before = transport.count_pools()
    client = clients.build_openai_client(api_key="c", base_url="http://127.0.0.1:1/v1")
    assert transport.count_pools() == before + 1
    del client
    gc.collect()
    assert transport.count_pools() == before


def test_releasing_a_foreign_object_is_harmless() -> None:
    clients.release_client(object())
    clients.release_client(None)
