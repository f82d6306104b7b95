"""What a picture is known by, and which files are its own."""

import json

from db.withdrawal_graph import Blob, own_blobs, own_digests


def test_what_was_downloaded_is_known_as_it_was_sent_too() -> None:
    payload = json.dumps(
        {
            "picture": {"sha256": "kept", "media_type": "image/jpeg", "width_px": 9},
            "source_sha256": "sent",
        }
    )
    assert own_digests("found_picture", payload) == {"kept", "sent"}
    assert own_blobs("found_picture", payload) == {Blob("kept", "image/jpeg")}
