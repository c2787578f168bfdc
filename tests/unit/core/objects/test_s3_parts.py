"""Parts, clients and answers of S3, without a server."""

from __future__ import annotations

import hashlib
import io
import os

from safekept.core.objects.s3.answers import understood
from safekept.core.objects.s3.client import S3Access, S3Client
from safekept.core.objects.s3.transfer import LastRead, Parts, fill_buffer, remaining


def test_the_etag_of_parts_is_that_of_s3():
    content = os.urandom(2_500_000)
    parts = Parts(bytearray(content[:1_200_000]), io.BytesIO(content[1_200_000:]), 1_000_000)
    assert b"".join(parts) == content
    digests = [hashlib.md5(content[at : at + 1_000_000]).digest() for at in range(0, len(content), 1_000_000)]
    assert parts.etag() == f"{hashlib.md5(b''.join(digests)).hexdigest()}-3"
    assert parts.size == len(content)
    assert parts.digest() == hashlib.sha256(content).digest()


def test_a_file_fills_a_buffer_as_far_as_it_goes():
    class ReadOnly:
        """A file that has no `readinto`, and gives less than it was asked for."""

        def __init__(self, data):
            self.file = io.BytesIO(data)

        def read(self, size=-1):
            return self.file.read(min(size, 1000))

    for file in (io.BytesIO(b"x" * 5000), ReadOnly(b"x" * 5000)):
        buffer = bytearray(10_000)
        assert fill_buffer(file, buffer) == 5000
        assert buffer[:5000] == b"x" * 5000
    assert fill_buffer(io.BytesIO(b"x" * 50), bytearray(10)) == 10


def test_what_remains_is_measured_without_moving():
    file = io.BytesIO(b"x" * 100)
    file.seek(30)
    assert remaining(file) == 70
    assert file.tell() == 30
    assert remaining(object()) is None


def test_a_put_gets_time_for_its_size_and_more_after_it_ran_out():
    client = S3Client("bucket", "p", S3Access(key="k", secret="s"), timeout=60.0, patience=300.0)

    def seconds():
        client.close()
        client.putting(16 << 20)
        ((_, allowed),) = client._stores
        return allowed

    client.reading()
    assert list(client._stores) == [("get", 60.0)]
    slow = seconds()
    assert 60 + 256 <= slow <= 640
    client.allow_more()
    assert seconds() > slow  # a thin line
    client.learn(16 << 20, 1.0)
    assert seconds() == 120  # a quick one: a dead server is noticed soon
    client.learn(100, 60.0)
    assert seconds() == 120  # a small one tells nothing


def test_only_code_and_message_are_taken_from_an_answer():
    text = (
        "Error performing PUT https://bucket.example/x?X-Amz-Signature=abc - Server returned non-2xx status "
        "code: 403 Forbidden: <Error><Code>SignatureDoesNotMatch</Code><Message>It does not\n match</Message>"
        "<AWSAccessKeyId>AKIASECRET</AWSAccessKeyId><StringToSign>hush</StringToSign></Error>"
    )
    answer = understood(Exception(text))
    assert (answer.status, answer.code, answer.message) == (403, "SignatureDoesNotMatch", "It does not match")
    assert answer.words == "It does not match (403)"


def test_whole_objects_are_kept_for_their_parts_and_not_for_ever():
    kept, reads = LastRead(), []

    def read(name):
        reads.append(name)
        return name.encode() * (10 << 20)

    assert kept.part("a", 5, 3, lambda: read("a")) == b"aaa"
    assert kept.part("a", 7, 3, lambda: read("a")) == b"aaa"
    assert reads == ["a"]
    for name in "bcde":
        kept.part(name, 0, 1, lambda name=name: read(name))
    kept.part("a", 0, 1, lambda: read("a"))
    assert reads == ["a", "b", "c", "d", "e", "a"]
    kept.forget("a")
    kept.part("a", 0, None, lambda: read("a"))
    assert reads[-2:] == ["a", "a"]
