"""`loupe plugins`."""

from loupe.flows.cli.output import Answer, Line, Table


def plugins() -> Answer:
    """List what installed packages add.

    These are formats, steps, models, checks, pages, exports and more. Exit code 1 if one cannot be
    imported; the others work without it.
    """
    from loupe.schemas.plugins import survey_plugins

    found = survey_plugins()
    rows = []
    for one in found:
        package = f"{one.plugin.package} {one.plugin.package_version}"
        rows.append((one.plugin.kind, one.plugin.name, package, "broken" if one.fault else "ok"))
    faults = [one.fault for one in found if one.fault]
    lines: list[Line] = [Table("", ("kind", "name", "package", "state"), rows)]
    if not found:
        lines = ["no installed package adds anything; docs/python.md#plugins says how one does"]
    document = [{**one.plugin.model_dump(mode="json"), "fault": one.fault or None} for one in found]
    return Answer(document, [*lines, *faults], failed=bool(faults))
