"""Take an answer that arrives again, as the page never heard that it had arrived."""

import json
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, JsonResponse

from loupe_desk.gate import only_labels

_ANSWERS = "tasks:api:task-annotations"


class AnswerAgain:
    """Django middleware that confirms an answer which is stored already.

    The page gives each answer an id. If a confirmation is lost, the page sends the answer again,
    which Label Studio refuses; the person could not go on before they load the page again.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Return the response, or else the confirmation of what is stored."""
        answer = self._get_response(request)
        route = request.resolver_match.view_name if request.resolver_match else ""
        is_answer = request.method == "POST" and route == _ANSWERS
        if is_answer and answer.status_code == 409 and only_labels(request.user):
            return _confirmed(request) or answer
        return answer


def _confirmed(request: HttpRequest) -> HttpResponse | None:
    """Return the stored answer, with what changed since; None if it is not the person's own."""
    from tasks.models import Annotation
    from tasks.serializers import AnnotationSerializer

    sent = json.loads(request.body)
    stored = Annotation.objects.filter(
        unique_id=sent.get("unique_id"),
        task_id=request.resolver_match.kwargs["pk"],
        completed_by=request.user,
    ).first()
    if stored is None:
        return None
    if stored.result != sent.get("result"):
        stored.result = sent["result"]
        stored.save()
    return JsonResponse(AnnotationSerializer(stored).data, status=201)
