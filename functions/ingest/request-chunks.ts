import { createContextKey } from "@connectrpc/connect";

/** Set by a listener that reads bodies cheaper than Connect's adapter does: the chunks of the request, for one reader in place of its body. */
export const requestChunksKey = createContextKey<AsyncIterable<Uint8Array<ArrayBuffer>> | undefined>(undefined, {
  description: "the chunks of the request's body",
});
