"""Groups of entities: which of them count together now. An entity's id does not depend on it."""

from collections.abc import Mapping

from db.store import Store, retried


@retried
def move_to_groups(store: Store, groups: Mapping[str, str]) -> None:
    """Puts each entity, by its id, into its group; one that is there already is not written."""
    if not groups:
        return
    with store.write() as connection:
        mark = "%s" if connection.dialect.name == "postgresql" else "?"
        connection.exec_driver_sql(
            f"UPDATE entity SET group_key = {mark} "  # noqa: S608 no foreign text
            f"WHERE id = {mark} AND (group_key IS NULL OR group_key <> {mark})",
            [(group, entity_id, group) for entity_id, group in groups.items()],
        )
