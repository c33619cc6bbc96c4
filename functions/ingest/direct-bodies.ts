import { createContextKey } from "@connectrpc/connect";

type Bytes = Uint8Array<ArrayBuffer>;

/** The bodies of an exchange, read and written cheaper than by Connect's adapter. */
export interface DirectBodies {
  /** The chunks of the request, for one reader in place of its body. */
  chunks: AsyncIterable<Bytes>;
  /** Sends bytes of the response at once, if its header and all bytes before have been sent; returns whether it did. */
  send(bytes: Bytes): boolean;
}

/** Set by a listener that has them. */
export const directBodiesKey = createContextKey<DirectBodies | undefined>(undefined, {
  description: "the bodies of the exchange",
});
