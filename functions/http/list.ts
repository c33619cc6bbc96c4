import * as v from "valibot";
import type { Secret } from "../../kit/secret.ts";
import { QueryInteger } from "../../proto/values.ts";
import type { CoreConfig } from "../config/core-config.ts";
import { Problem } from "../problems.ts";
import type { Paged, PageRequest } from "../store/database/query-parts.ts";
import type { Reply } from "./route.ts";

/** The query fields of every list (docs/api.md): `limit` of 1 to 1000, 100 by default, and the opaque `cursor`. */
export const listFields = {
  limit: v.optional(QueryInteger(1, 1000), "100"),
  cursor: v.optional(v.pipe(v.string("must be given once"), v.maxLength(8192, "must be a cursor"))),
};

/** The response of a list of `item`. */
export const ListView = <Item extends v.GenericSchema>(item: Item) =>
  v.strictObject({ items: v.array(item), next_cursor: v.nullable(v.string()) });

/**
 * Creates the responder of the list `name`, which returns one page. Its cursors are invalid for any other list. `more` returns further
 * members of the response.
 */
export const createList = (config: CursorSecrets, name: string) => {
  const cursors = createCursorSeal(config);
  return async <Row, View>(
    query: { limit: number; cursor?: string | undefined },
    find: (page: PageRequest) => Promise<Paged<Row>>,
    view: (row: Row) => View,
    more: (rows: readonly Row[]) => Record<string, unknown> = () => ({}),
  ): Promise<Reply> => {
    const [after = null] = query.cursor === undefined ? [] : await cursors.open(name, query.cursor);
    const { rows, next } = await find({ after, limit: query.limit });
    const nextCursor = next === null ? null : await cursors.seal(name, [next]);
    return { status: 200, body: { items: rows.map(view), next_cursor: nextCursor, ...more(rows) } };
  };
};

/** Turns positions in a list into opaque cursors and back. Rejects a cursor of another list, order or deployment. */
export interface CursorSeal {
  seal(list: string, position: readonly string[]): Promise<string>;
  /** Returns the position. Throws 422 `validation_failed` for text that `seal` did not return for this list. */
  open(list: string, cursor: string): Promise<string[]>;
}

const macBytes = 16;

/** The secrets that keys of cursors are derived from. */
type CursorSecrets = Pick<CoreConfig, "authTokenSecret" | "authTokenSecretPrevious">;

type Mac = (list: string, payload: string) => Promise<Uint8Array>;

/** Authenticates cursors by HMAC-SHA-256. Opens those of the previous secret too. */
export const createCursorSeal = ({ authTokenSecret, authTokenSecretPrevious }: CursorSecrets): CursorSeal => {
  const macOf = createMac(authTokenSecret);
  const macs = authTokenSecretPrevious === null ? [macOf] : [macOf, createMac(authTokenSecretPrevious)];
  return {
    async seal(list, position) {
      const payload = JSON.stringify(position);
      const mac = await macOf(list, payload);
      const text = new TextEncoder().encode(payload);
      const sealed = new Uint8Array(macBytes + text.length);
      sealed.set(mac);
      sealed.set(text, macBytes);
      return textOf(sealed);
    },
    async open(list, cursor) {
      try {
        const sealed = Uint8Array.fromBase64(cursor, { alphabet: "base64url" });
        if (textOf(sealed) !== cursor) throw foreign();
        const payload = new TextDecoder("utf-8", { fatal: true }).decode(sealed.subarray(macBytes));
        const mac = sealed.subarray(0, macBytes);
        const expected = await Promise.all(macs.map((compute) => compute(list, payload)));
        if (sealed.length <= macBytes || !expected.some((own) => equalInConstantTime(own, mac))) throw foreign();
        return JSON.parse(payload) as string[];
      } catch {
        throw foreign();
      }
    },
  };
};

const createMac = (secret: Secret): Mac => {
  const importKey = () =>
    crypto.subtle.importKey(
      "raw",
      new TextEncoder().encode(`svc-cursor-v1\n${secret.reveal()}`),
      { name: "HMAC", hash: "SHA-256" },
      false,
      ["sign"],
    );
  // At the first cursor: in workerd every request makes all lists.
  let key: ReturnType<typeof importKey> | undefined;
  return async (list, payload) => {
    key ??= importKey();
    const data = new TextEncoder().encode(`${list}\n${payload}`);
    return new Uint8Array(await crypto.subtle.sign("HMAC", await key, data)).subarray(0, macBytes);
  };
};

const textOf = (sealed: Uint8Array): string => sealed.toBase64({ alphabet: "base64url", omitPadding: true });

const foreign = (): Problem =>
  new Problem("validation_failed", { errors: [{ path: "cursor", message: "is not a cursor of this list and order" }] });

const equalInConstantTime = (a: Uint8Array, b: Uint8Array): boolean => {
  let difference = a.length ^ b.length;
  for (let at = 0; at < a.length; at++) difference |= (a[at] ?? 0) ^ (b[at] ?? 0);
  return difference === 0;
};
