"""The lead's page, its buttons, and questions of annotators: all answered by the queue watcher."""

import json
from http import HTTPStatus
from pathlib import Path
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.utils.html import escape

from loupe_desk.gate import leads
from loupe_desk.tickets import with_tickets
from loupe_desk.view import images_origin, ticket_of
from loupe_desk.watcher import WatcherDownError, post

_SCRIPT = (Path(__file__).parent / "lead.js").read_bytes()
_PATIENCE_SECONDS = 60.0
_PUSH_SECONDS = 600.0
_DOWN = "The queue watcher does not run: start it with loupe up."
_LATER = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="5">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Review</title>
<body style="font: 16px/1.5 system-ui, sans-serif; margin: 3em">
<h1>Not available now</h1>
<p>%s</p>
<p>This page looks again every 5 seconds.</p>
"""
_TOKEN = "CSRF-TOKEN"  # noqa: S105 the place of one
_SOURCES = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'"


def page(request: HttpRequest) -> HttpResponse:
    """Return the lead's page."""
    if not leads(request.user):
        return HttpResponse("This page is for the lead.", "text/plain; charset=utf-8", 403)
    status, content = _asked({"ask": "page"}, _PATIENCE_SECONDS)
    if status != HTTPStatus.OK:
        return HttpResponse(_LATER % escape(content.get("problem", _DOWN)), status=status)
    origin = images_origin(request)
    html = content["html"].replace(_TOKEN, get_token(request)).encode()
    answer = HttpResponse(with_tickets(html, ticket_of(request.user), origin))
    images = origin or "/".join(content["images"].split("/")[:3])
    answer["Content-Security-Policy"] = (
        f"{_SOURCES}; img-src data: {images}; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    answer["Cache-Control"] = "no-store"
    return answer


def script(_request: HttpRequest) -> HttpResponse:
    """Return the script of the lead's page."""
    return HttpResponse(_SCRIPT, "text/javascript; charset=utf-8")


def now(request: HttpRequest) -> HttpResponse:
    """Return the page as it is now, if it is not the one that is known."""
    return _for_lead(request, {"ask": "page", "known": request.GET.get("known", "")})


def items(request: HttpRequest) -> HttpResponse:
    """Return items that were searched for."""
    wanted = {name: request.GET.get(name, "") for name in ("queue", "words", "state")}
    return _for_lead(request, {"ask": "items", **wanted})


def press(request: HttpRequest) -> HttpResponse:
    """Do what a button says, as the person who is logged in."""
    if request.method != "POST":
        return JsonResponse({"problem": "A button is pressed with POST."}, status=405)
    if not leads(request.user):
        return JsonResponse({"problem": "Only the lead may do this."}, status=403)
    try:
        given = json.loads(request.body)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        return JsonResponse({"problem": "A button sends a JSON object."}, status=400)
    return _for_lead(request, {**given, "ask": "press", "by": request.user.email}, _PUSH_SECONDS)


def inbox(request: HttpRequest) -> HttpResponse:
    """Return what the lead said to the person who is logged in."""
    return _answered({"ask": "inbox", "user": request.user.pk})


def thread(request: HttpRequest, pk: int) -> HttpResponse:
    """Return what was said about a task, or ask the lead about it."""
    about = {"user": request.user.pk, "task": pk}
    if request.method != "POST":
        return _answered({"ask": "thread", **about})
    try:
        text = str(json.loads(request.body)["text"])
    except (ValueError, KeyError, TypeError):
        return JsonResponse({"problem": "A question has a text."}, status=400)
    return _answered({"ask": "question", "text": text, **about})


def _for_lead(
    request: HttpRequest, asked: dict[str, Any], timeout_seconds: float = _PATIENCE_SECONDS
) -> HttpResponse:
    if not leads(request.user):
        return JsonResponse({"problem": "Only the lead may see this."}, status=403)
    return _answered(asked, timeout_seconds)


def _answered(asked: dict[str, Any], timeout_seconds: float = _PATIENCE_SECONDS) -> HttpResponse:
    status, content = _asked(asked, timeout_seconds)
    return JsonResponse(content, status=status, headers={"Cache-Control": "no-store"})


def _asked(asked: dict[str, Any], timeout_seconds: float) -> tuple[int, dict[str, Any]]:
    try:
        return post("/lead", asked, timeout_seconds)
    except WatcherDownError:
        return HTTPStatus.SERVICE_UNAVAILABLE, {"problem": _DOWN}
