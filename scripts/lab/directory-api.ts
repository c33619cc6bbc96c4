import { writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { type DirectoryState, type DirectoryUser, findGroup, membersOf, usualDirectory } from "./directory-people.ts";
import { createDirectoryTokens } from "./directory-tokens.ts";
import { startLoopbackServer } from "./loopback-server.ts";

/** How a call fails: with an error of the API, or with a 200 whose body is wrong. */
export type DirectoryFaultKind =
  | { status: 401 | 403 | 404 | 429 | 500 | 503; reason?: string }
  /** The right response, delayed. */
  | { delayMs: number }
  /** Half of the JSON, in well-formed HTTP. */
  | "truncated"
  /** The connection ends within the body. */
  | "cut"
  /** An empty JSON object. */
  | "empty"
  /** No response. */
  | "silent";

/** Which calls fail. Absent fields match every call of this kind. */
export interface PlannedFault {
  on: "token" | "users" | "members";
  /** 1 is the first. */
  page?: number;
  group?: string;
  how: DirectoryFaultKind;
}

/** A directory on loopback with Google's protocol: JWT bearer grant, `users.list`, `members.list`. */
export interface DirectoryApi {
  /** For `SVC_DIRECTORY_API_URL`. */
  url: string;
  /** Replaces users or groups; a list that is being read page by page changes from its next page. */
  set(state: Partial<DirectoryState>): void;
  state(): DirectoryState;
  /** Lets matching calls fail from now on; without a fault, none. */
  fail(...faults: readonly PlannedFault[]): void;
  /** Every call so far, its query included. */
  readonly calls: readonly string[];
  /** Writes a service account's key file for this directory into `folder`; returns its path. */
  writeKeyFile(folder: string, changes?: Readonly<Record<string, unknown>>): Promise<string>;
  /** Invalidates every access token that was issued. */
  revokeTokens(): void;
  close(): Promise<void>;
}

/** The options of the directory API. */
export interface DirectoryApiOptions {
  state?: DirectoryState;
  /** Most users or members of a page, below what the caller requests. */
  pageSize?: number;
}

const scopeRoot = "https://www.googleapis.com/auth/admin.directory.";
const userScope = `${scopeRoot}user.readonly`;
const memberScope = `${scopeRoot}group.member.readonly`;

/** Starts the directory with the people of people.ts. */
export const startDirectoryApi = async (options: DirectoryApiOptions = {}): Promise<DirectoryApi> => {
  const { pageSize = 500 } = options;
  let state = options.state ?? usualDirectory;
  let faults: readonly PlannedFault[] = [];
  const calls: string[] = [];
  const tokens = await createDirectoryTokens({ delegates: ["root@example.test"], scopes: [userScope, memberScope] });
  const { server, url: origin, close } = await startLoopbackServer();
  const tokenUrl = `${origin}/token`;

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? "/", origin);
    calls.push(`${request.method} ${url.pathname}${url.search}`);
    const group = /^\/admin\/directory\/v1\/groups\/([^/]+)\/members$/.exec(url.pathname)?.[1];
    const send = (fault: PlannedFault | undefined, reply: Reply) => respond(response, fault?.how, reply);
    if (request.method === "POST" && url.pathname === "/token") {
      const form = new URLSearchParams(await text(request));
      const fault = faults.find(({ on }) => on === "token");
      return send(fault, await tokens.grant(form, tokenUrl));
    }
    const scopes = tokens.scopesOf(request.headers.authorization);
    if (scopes === null) return send(undefined, apiError(401, "authError", "Invalid Credentials"));
    if (request.method !== "GET") return send(undefined, apiError(404, "notFound", "Not Found"));
    const page = pageNumber(url);
    if (page === null) return send(undefined, apiError(400, "invalid", "Invalid Input: pageToken"));
    const matching = (on: PlannedFault["on"]) =>
      faults.find(
        (fault) =>
          fault.on === on &&
          (fault.page ?? page) === page &&
          (fault.group ?? decodeURIComponent(group ?? "")) === decodeURIComponent(group ?? ""),
      );
    if (url.pathname === "/admin/directory/v1/users") return send(matching("users"), listUsers(url, scopes));
    if (group !== undefined) return send(matching("members"), listMembers(url, decodeURIComponent(group), scopes));
    return send(undefined, apiError(404, "notFound", "Not Found"));
  };

  const listUsers = (url: URL, scopes: readonly string[]): Reply => {
    if (!scopes.includes(userScope)) return insufficientScope;
    if (url.searchParams.get("customer") !== "my_customer") return apiError(400, "badRequest", "Bad Request");
    const users = [...state.users].sort((a, b) => (a.primaryEmail < b.primaryEmail ? -1 : 1)).map(userView);
    return listing(url, { kind: "admin#directory#users", name: "users", items: users, most: Math.min(500, pageSize) });
  };

  const listMembers = (url: URL, key: string, scopes: readonly string[]): Reply => {
    if (!scopes.includes(memberScope)) return insufficientScope;
    const group = findGroup(state, key);
    if (!group) return apiError(404, "notFound", "Resource Not Found: groupKey");
    const derived = url.searchParams.get("includeDerivedMembership") === "true";
    const items = membersOf(state, group, derived).map((member) => ({
      kind: "admin#directory#member",
      role: "MEMBER",
      status: "ACTIVE",
      ...member,
    }));
    return listing(url, { kind: "admin#directory#members", name: "members", items, most: Math.min(200, pageSize) });
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
    state: () => state,
    fail: (...planned) => {
      faults = planned;
    },
    revokeTokens: tokens.revokeAll,
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

interface Reply {
  status: number;
  body: Record<string, unknown>;
}

const apiError = (code: number, reason: string, message: string): Reply => ({
  status: code,
  body: { error: { code, message, errors: [{ message, domain: "global", reason }] } },
});

const insufficientScope = apiError(403, "insufficientPermissions", "Request had insufficient authentication scopes.");

const respond = (response: ServerResponse, fault: DirectoryFaultKind | undefined, reply: Reply): void => {
  if (fault === "silent") return;
  if (typeof fault === "object" && "delayMs" in fault) {
    setTimeout(() => respond(response, undefined, reply), fault.delayMs).unref();
    return;
  }
  const failing = typeof fault === "object";
  const { status, body } = failing ? apiError(fault.status, fault.reason ?? "fault", "As planned") : reply;
  const whole = Buffer.from(JSON.stringify(fault === "empty" ? {} : body));
  const content = fault === "truncated" ? whole.subarray(0, whole.length >> 1) : whole;
  response.writeHead(status, {
    "Content-Type": "application/json; charset=UTF-8",
    "Content-Length": content.length,
  });
  if (fault === "cut") response.write(content.subarray(0, content.length >> 1), () => response.destroy());
  else response.end(content);
};

const pageNumber = (url: URL): number | null => {
  const token = url.searchParams.get("pageToken");
  if (token === null) return 1;
  const page = Number(/^page-(\d{1,6})$/.exec(token)?.[1]);
  return page > 1 ? page : null;
};

/** Returns one page. Like the real API, it omits an empty list, and every field that `fields` does not name. */
const listing = (
  url: URL,
  { kind, name, items, most }: { kind: string; name: string; items: readonly object[]; most: number },
): Reply => {
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
    [...fields.matchAll(/(\w+)(?:\(([^)]*)\))?(?:,|$)/g)].map(([, name = "", inner]) => [name, inner]),
  );
  const pick = (value: object, names: readonly string[]) =>
    Object.fromEntries(Object.entries(value).filter(([name]) => names.includes(name)));
  return Object.fromEntries(
    Object.entries(pick(body, [...requested.keys()])).map(([name, value]) => {
      const inner = requested.get(name)?.split(",");
      return [name, inner && Array.isArray(value) ? value.map((item: object) => pick(item, inner)) : value];
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
}: DirectoryUser) => ({
  kind: "admin#directory#user",
  id,
  etag: '"fake"',
  primaryEmail,
  name: { fullName, givenName: fullName.split(" ")[0] ?? "", familyName: fullName.split(" ").slice(1).join(" ") },
  isAdmin: false,
  suspended,
  archived,
  aliases,
  emails: [{ address: primaryEmail, primary: true }, ...aliases.map((address) => ({ address }))],
  customerId: "C0fleetlab",
  orgUnitPath: "/",
});
