-- Each request of a collector changes its row, and no index holds what changes: with room on its page it stays there, and its index
-- stays as it is. Pages that are full already get the room as their rows move.
ALTER TABLE "proof_use" SET (fillfactor = 50);
