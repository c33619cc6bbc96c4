import * as v from "valibot";
import type { Secret } from "../../kit/secret.ts";
import { QueryInteger } from "../../proto/values.ts";
import type { Page, Paged } from "../store/page.ts";
import { createCursorSeal } from "./cursor.ts";
import type { Reply } from "./route.ts";

/** The query fields of every list (contract, section 1): `limit` of 1 to 1000, 100 by default, and the opaque `cursor`. */
export const listFields = {
  limit: v.optional(QueryInteger(1, 1000), "100"),
  cursor: v.optional(v.pipe(v.string("must be given once"), v.maxLength(8192, "must be a cursor"))),
};

/** The answer of a list of `item`. */
export const ListView = <Item extends v.GenericSchema>(item: Item) =>
  v.strictObject({ items: v.array(item), next_cursor: v.nullable(v.string()) });

/** Answers one page of the list called `name`, whose cursors open no other list. */
export const createList = (secret: Secret, name: string) => {
  const cursors = createCursorSeal(secret);
  return async <Row, View>(
    query: { limit: number; cursor?: string | undefined },
    find: (page: Page) => Promise<Paged<Row>>,
    view: (row: Row) => View,
  ): Promise<Reply> => {
    const [after = null] = query.cursor === undefined ? [] : await cursors.open(name, query.cursor);
    const { rows, next } = await find({ after, limit: query.limit });
    const nextCursor = next === null ? null : await cursors.seal(name, [next]);
    return { status: 200, body: { items: rows.map(view), next_cursor: nextCursor } };
  };
};
