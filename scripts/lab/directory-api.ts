import { writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import {
  type DirectoryState,
  findLabGroup,
  type LabUser,
  membersOf,
  usualDirectory,
} from "./directory-people.ts";
import { createDirectoryTokens } from "./directory-tokens.ts";
import { startLoopbackServer } from "./loopback-server.ts";

/** A call of the protocol that has a result; pages count from 1. */
export interface DirectoryCall {
  on: "token" | "users" | "members";
  page?: number;
  group?: string;
}

/** A result as status and JSON. */
export interface DirectoryReply {
  status: number;
  body: Record<string, unknown>;
}

/** Sends a result as JSON. */
export const sendReply = (response: ServerResponse, { status, body }: DirectoryReply): void =>
  void response
    .writeHead(status, { "Content-Type": "application/json; charset=UTF-8" })
    .end(JSON.stringify(body));

/** A directory on loopback with Google's protocol: JWT bearer grant, `users.list`, `members.list`. */
export interface DirectoryApi {
  /** For `SVC_DIRECTORY_API_URL`. */
  url: string;
  /** Replaces users or groups; a list that is being read page by page changes from its next page. */
  set(state: Partial<DirectoryState>): void;
  /** Every call so far, its query included. */
  readonly calls: readonly string[];
  /** Writes a service account's key file for this directory into `folder`; returns its path. */
  writeKeyFile(folder: string, changes?: Readonly<Record<string, unknown>>): Promise<string>;
  close(): Promise<void>;
}

/** The options of the directory API. */
export interface DirectoryApiOptions {
  /** Most users or members of a page, below what the caller requests. */
  pageSize?: number;
  /** Where core reaches it, if not at its own address. */
  publicUrl?: string;
  /** Sends the result of a call; `sendReply` by default. */
  send?(response: ServerResponse, reply: DirectoryReply, call: DirectoryCall): void;
}

const scopeRoot = "https://www.googleapis.com/auth/admin.directory.";
const userScope = `${scopeRoot}user.readonly`;
const memberScope = `${scopeRoot}group.member.readonly`;

/** Starts the directory with the people of people.ts. */
export const startDirectoryApi = async (
  options: DirectoryApiOptions = {},
): Promise<DirectoryApi> => {
  const { pageSize = 500, send = sendReply, publicUrl } = options;
  let state = usualDirectory;
  const calls: string[] = [];
  const tokens = await createDirectoryTokens({
    delegates: ["root@example.test"],
    scopes: [userScope, memberScope],
  });
  const { server, url: origin, close } = await startLoopbackServer();
  const tokenUrl = `${publicUrl ?? origin}/token`;

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? "/", origin);
    calls.push(`${request.method} ${url.pathname}${url.search}`);
    const refuse = (code: number, reason: string, message: string) =>
      sendReply(response, apiError(code, reason, message));
    if (request.method === "POST" && url.pathname === "/token")
      return send(
        response,
        await tokens.grant(new URLSearchParams(await text(request)), tokenUrl),
        { on: "token" },
      );
    const scopes = tokens.scopesOf(request.headers.authorization);
    if (scopes === null) return refuse(401, "authError", "Invalid Credentials");
    if (request.method !== "GET") return refuse(404, "notFound", "Not Found");
    const page = pageNumber(url);
    if (page === null) return refuse(400, "invalid", "Invalid Input: pageToken");
    const [, name] = /^\/admin\/directory\/v1\/groups\/([^/]+)\/members$/.exec(url.pathname) ?? [];
    const group = decodeURIComponent(name ?? "");
    if (url.pathname === "/admin/directory/v1/users")
      send(response, listUsers(url, scopes), { on: "users", page });
    else if (name !== undefined)
      send(response, listMembers(url, group, scopes), { on: "members", page, group });
    else refuse(404, "notFound", "Not Found");
  };

  const listUsers = (url: URL, scopes: readonly string[]): DirectoryReply => {
    if (!scopes.includes(userScope)) return insufficientScope;
    if (url.searchParams.get("customer") !== "my_customer")
      return apiError(400, "badRequest", "Bad Request");
    const users = [...state.users]
      .sort((a, b) => (a.primaryEmail < b.primaryEmail ? -1 : 1))
      .map(userView);
    return listing(url, {
      kind: "admin#directory#users",
      name: "users",
      items: users,
      most: Math.min(500, pageSize),
    });
  };

  const listMembers = (url: URL, key: string, scopes: readonly string[]): DirectoryReply => {
    if (!scopes.includes(memberScope)) return insufficientScope;
    const group = findLabGroup(state, key);
    if (!group) return apiError(404, "notFound", "Resource Not Found: groupKey");
    const derived = url.searchParams.get("includeDerivedMembership") === "true";
    const items = membersOf(state, group, derived).map((member) => ({
      kind: "admin#directory#member",
      role: "MEMBER",
      status: "ACTIVE",
      ...member,
    }));
    return listing(url, {
      kind: "admin#directory#members",
      name: "members",
      items,
      most: Math.min(200, pageSize),
    });
  };

  server.on("request", (request, response) => {
    answer(request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  return {
    url: origin,
    calls,
    set: (changes) => {
      state = { ...state, ...changes };
    },
    async writeKeyFile(folder, changes = {}) {
      const path = join(folder, "service-account.json");
      const key = {
        type: "service_account",
        project_id: "fleet-lab",
        private_key_id: "1",
        private_key: tokens.privateKeyPem,
        client_email: tokens.clientEmail,
        client_id: "100000000000000000001",
        token_uri: tokenUrl,
        universe_domain: "googleapis.com",
        ...changes,
      };
      await writeFile(path, JSON.stringify(key), { mode: 0o600 });
      return path;
    },
    close,
  };
};

/** Composes an error of the API. */
export const apiError = (code: number, reason: string, message: string): DirectoryReply => ({
  status: code,
  body: { error: { code, message, errors: [{ message, domain: "global", reason }] } },
});

const insufficientScope = apiError(
  403,
  "insufficientPermissions",
  "Request had insufficient authentication scopes.",
);

const pageNumber = (url: URL): number | null => {
  const token = url.searchParams.get("pageToken");
  if (token === null) return 1;
  const page = Number(/^page-(\d{1,6})$/.exec(token)?.[1]);
  return page > 1 ? page : null;
};

/** Returns one page. Like the real API, it omits an empty list, and every field that `fields` does not name. */
const listing = (
  url: URL,
  {
    kind,
    name,
    items,
    most,
  }: { kind: string; name: string; items: readonly object[]; most: number },
): DirectoryReply => {
  const size = Math.min(most, Number(url.searchParams.get("maxResults") ?? 100));
  const page = pageNumber(url) ?? 1;
  const shown = items.slice((page - 1) * size, page * size);
  const body = {
    kind,
    etag: '"fake"',
    ...(shown.length > 0 ? { [name]: shown } : {}),
    ...(page * size < items.length ? { nextPageToken: `page-${page + 1}` } : {}),
  };
  return { status: 200, body: partial(body, url.searchParams.get("fields")) };
};

/** Returns the partial response for `kind,nextPageToken,users(id,name)`: top-level names, and names inside one list. */
const partial = (body: Record<string, unknown>, fields: string | null): Record<string, unknown> => {
  if (fields === null) return body;
  const requested = new Map(
    [...fields.matchAll(/(\w+)(?:\(([^)]*)\))?(?:,|$)/g)].map(([, name = "", inner]) => [
      name,
      inner,
    ]),
  );
  const pick = (value: object, names: readonly string[]) =>
    Object.fromEntries(Object.entries(value).filter(([name]) => names.includes(name)));
  return Object.fromEntries(
    Object.entries(pick(body, [...requested.keys()])).map(([name, value]) => {
      const inner = requested.get(name)?.split(",");
      return [
        name,
        inner && Array.isArray(value) ? value.map((item: object) => pick(item, inner)) : value,
      ];
    }),
  );
};

const userView = ({
  id,
  primaryEmail,
  fullName = "",
  suspended = false,
  archived = false,
  aliases = [],
}: LabUser) => ({
  kind: "admin#directory#user",
  id,
  etag: '"fake"',
  primaryEmail,
  name: {
    fullName,
    givenName: fullName.split(" ")[0] ?? "",
    familyName: fullName.split(" ").slice(1).join(" "),
  },
  isAdmin: false,
  suspended,
  archived,
  aliases,
  emails: [{ address: primaryEmail, primary: true }, ...aliases.map((address) => ({ address }))],
  customerId: "C0fleetlab",
  orgUnitPath: "/",
});
