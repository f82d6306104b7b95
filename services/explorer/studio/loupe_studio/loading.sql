-- Loads the rows of a Parquet file. The blocks are transactions of their own: DuckDB checks foreign
-- keys against what is committed. $items is the file; $images, $texts and $model are ids.

CREATE OR REPLACE VIEW new_item AS SELECT * FROM read_parquet('$items') WHERE NOT gone;
CREATE OR REPLACE VIEW old_item AS SELECT id::UUID AS id FROM read_parquet('$items') WHERE gone;
CREATE OR REPLACE VIEW new_text AS
SELECT id AS image, unnest(captions, recursive := true) FROM new_item;

INSERT OR IGNORE INTO sample (collection_id, sample_id, created_at, updated_at)
SELECT '$images', id::UUID, now(), now() FROM new_item;

INSERT OR IGNORE INTO sample (collection_id, sample_id, created_at, updated_at)
SELECT '$texts', text_id::UUID, now(), now() FROM new_text;

-- commit

DELETE FROM caption
WHERE parent_sample_id IN (SELECT id::UUID FROM new_item UNION ALL SELECT id FROM old_item);

-- commit

INSERT OR IGNORE INTO image
(file_name, width, height, file_path_abs, sample_id, created_at, updated_at)
SELECT name, width, height, path, id::UUID, now(), now() FROM new_item;

INSERT OR IGNORE INTO caption (sample_id, parent_sample_id, created_at, text)
SELECT text_id::UUID, image::UUID, now(), text FROM new_text;

INSERT OR IGNORE INTO metadata
(custom_metadata_id, created_at, updated_at, data, metadata_schema, sample_id)
SELECT id::UUID, now(), now(), fields, types, id::UUID FROM new_item;

UPDATE metadata SET data = new.fields, metadata_schema = new.types, updated_at = now()
FROM new_item AS new WHERE sample_id = new.id::UUID;

INSERT OR IGNORE INTO sample_embedding (sample_id, embedding_model_id, embedding)
SELECT id::UUID, '$model', vector::FLOAT[] FROM new_item WHERE vector IS NOT NULL;

-- commit

DELETE FROM metadata WHERE sample_id IN (SELECT id FROM old_item);
DELETE FROM image WHERE sample_id IN (SELECT id FROM old_item);
DELETE FROM sample_embedding WHERE sample_id IN (SELECT id FROM old_item);
DELETE FROM sampletaglinktable WHERE sample_id IN (SELECT id FROM old_item);

-- commit

DELETE FROM sample WHERE sample_id IN (SELECT id FROM old_item);
