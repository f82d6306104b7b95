"""Work on very many records, before people see any: 10,000 of them are one entity of the store."""
