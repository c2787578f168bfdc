"""A bucket with versions and a default retention (object lock), on `moto`, which keeps both in memory.

What it shows: a version that came in one PUT cannot be deleted before its time. One that was uploaded in
parts can be, here and not at Amazon's: no test takes that for proof. Who asks is not checked at all, so a
credential with fewer rights is made by `refuse`: those methods are answered with 403.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from safekept.core.objects import Options
from support.offsite.servers import KEY, SECRET, Place, plain_environment

BUCKET = "locked"


class LockedBucket:
    """Use it in a `with`."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.refuse: set[str] = set()

    def __enter__(self) -> LockedBucket:
        import boto3
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Silent(WSGIRequestHandler):
            def log(self, *_: object) -> None:
                pass

        application = self._before(DomainDispatcherApplication(create_backend_app))
        self._server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Silent)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self.client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )
        self.client.create_bucket(Bucket=BUCKET, ObjectLockEnabledForBucket=True)
        rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 30}}
        self.client.put_object_lock_configuration(
            Bucket=BUCKET, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _before(self, application: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
        def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            if environ["REQUEST_METHOD"] in self.refuse:
                start("403 Forbidden", [("Content-Type", "application/xml")])
                return [b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"]
            if "HTTP_X_AMZ_CHECKSUM_SHA256" in environ:
                # Amazon takes any checksum for the one that a lock wants; moto knows this header only.
                environ["HTTP_X_AMZ_SDK_CHECKSUM_ALGORITHM"] = "SHA256"
            return application(environ, start)

        return answer

    def place(self, prefix: str) -> Place:
        environment = {
            **plain_environment(self.home),
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }
        options = Options(endpoint=self.endpoint, region="us-east-1", timeout=30.0)
        return Place(f"s3://{BUCKET}/{prefix}", "", options, environment)

    def versions(self, prefix: str) -> list[tuple[str, str]]:
        pages = self.client.get_paginator("list_object_versions").paginate(Bucket=BUCKET, Prefix=prefix)
        return [(one["Key"], one["VersionId"]) for page in pages for one in page.get("Versions", [])]
