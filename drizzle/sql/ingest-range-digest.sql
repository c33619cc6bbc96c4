-- Continues the digest of a queue's blocks by those that a commit adds: for each block in its order, the SHA-256 of the digest before and the
-- block's own. Both are of 32 bytes; null and an empty one are the digest of none.
CREATE OR REPLACE FUNCTION "continue_range_digest"("before" bytea, "blocks" bytea) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	digest bytea := coalesce("before", ''::bytea);
BEGIN
	FOR block IN 0 .. length("blocks") / 32 - 1 LOOP
		digest := sha256(digest || substr("blocks", block * 32 + 1, 32));
	END LOOP;
	RETURN digest;
END
$$;
-- The same by the digests of blocks in hex, which are of 32 bytes, or of 33 where the first one says that they are of stored bytes.
CREATE OR REPLACE FUNCTION "continue_digest"("before" bytea, "blocks" text[]) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	digest bytea := coalesce("before", ''::bytea);
	block text;
BEGIN
	FOREACH block IN ARRAY "blocks" LOOP
		digest := sha256(digest || decode(block, 'hex'));
	END LOOP;
	RETURN digest;
END
$$;
