import * as v from "valibot";
import { faultOf } from "./google-fault.ts";
import { DirectoryFault } from "./snapshot.ts";

/** No directory has control characters in ids or addresses. */
const id = v.pipe(v.string(), v.regex(/^[\x21-\x7e]{1,128}$/));
const address = v.pipe(v.string(), v.regex(/^[^\s\p{Cc}]{1,320}$/u));
const nextPageToken = v.optional(v.pipe(v.string(), v.nonEmpty()));

/** One page of a list. */
interface Page<Item> {
  items: readonly Item[];
  nextPageToken?: string | undefined;
}

// The API omits an empty list; then only `kind` distinguishes a page from another object.

/** A response of `users.list`. */
export const UsersPage = v.pipe(
  v.object({
    kind: v.optional(v.literal("admin#directory#users")),
    nextPageToken,
    users: v.optional(
      v.array(
        v.object({
          id,
          primaryEmail: address,
          name: v.optional(v.object({ fullName: v.optional(v.string()) })),
          suspended: v.optional(v.boolean(), false),
          archived: v.optional(v.boolean(), false),
        }),
      ),
    ),
  }),
  v.check(({ kind, users }) => kind !== undefined || users !== undefined),
  v.transform(({ users = [], nextPageToken }) => ({ items: users, nextPageToken })),
);

/** A response of `members.list`. A member that represents the whole customer may have no id. */
export const MembersPage = v.pipe(
  v.object({
    kind: v.optional(v.literal("admin#directory#members")),
    nextPageToken,
    members: v.optional(v.array(v.object({ id: v.optional(id), type: v.string() }))),
  }),
  v.check(({ kind, members }) => kind !== undefined || members !== undefined),
  v.transform(({ members = [], nextPageToken }) => ({ items: members, nextPageToken })),
);

/**
 * Yields the items of every page of a list. Throws `DirectoryFault` for a page that fails, is malformed (the client returns truncated JSON
 * as text), or links to a page that was read already.
 */
export const readPages = async function* <Item>(
  schema: v.GenericSchema<unknown, Page<Item>>,
  list: (page: { pageToken?: string }) => Promise<{ data: unknown }>,
): AsyncGenerator<Item> {
  const seen = new Set<string>();
  let pageToken: string | undefined;
  do {
    const answer = await list(pageToken === undefined ? {} : { pageToken }).catch(
      (error: unknown) => {
        throw faultOf(error, seen.size === 0 ? "first_page" : "page");
      },
    );
    const page = v.safeParse(schema, answer.data);
    if (!page.success)
      throw malformed(`a page is malformed at ${v.getDotPath(page.issues[0]) ?? "its top"}`);
    yield* page.output.items;
    pageToken = page.output.nextPageToken;
    if (pageToken !== undefined && seen.has(pageToken)) throw malformed("the pages form a cycle");
    if (pageToken !== undefined) seen.add(pageToken);
  } while (pageToken !== undefined);
};

const malformed = (message: string) => new DirectoryFault("answer_malformed", message);
