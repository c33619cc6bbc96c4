import { admin, type admin_directory_v1 } from "@googleapis/admin";
import { JWT } from "google-auth-library";
import * as v from "valibot";
import { JsonLimitError, jsonLimits, limitJson } from "#kit/foreign-json.ts";
import type { ServiceAccount } from "./service-account.ts";
import {
  DirectoryFault,
  type DirectoryFaultCode,
  type DirectorySnapshot,
  type DirectoryUser,
} from "./snapshot.ts";

/** The access to a customer's directory. */
export interface GoogleDirectoryOptions {
  account: ServiceAccount;
  /** The super admin that the account impersonates. */
  delegateEmail: string;
  /** The domain of the role groups' addresses. */
  domain: string;
  /** The base of `/admin/directory/v1/…`; null for Google's own. */
  apiUrl: string | null;
  /** Aborts the read. */
  signal: AbortSignal;
  /** The timeout of each call; 30 s by default. */
  timeoutMs?: number;
}

type Api = admin_directory_v1.Admin;

interface CallOptions {
  rootUrl?: string;
}

const scopeRoot = "https://www.googleapis.com/auth/admin.directory.";
const scopes = [`${scopeRoot}user.readonly`, `${scopeRoot}group.member.readonly`];

/** The URL to which google-auth-library sends every assertion; it ignores the key file's `token_uri`. */
const builtInTokenUrl = "https://oauth2.googleapis.com/token";

/** The largest pages of the API. */
const usersPerPage = 500;
const membersPerPage = 200;

/** The call that failed. */
type GoogleCall = "token" | "first_page" | "page";

/** The list does not exist, as `members.list` reports for an unknown group. */
class ListNotFound extends DirectoryFault {}

/** Reports whether the first page of a list failed because the list does not exist; on a later page, the list would be incomplete. */
const isNotFound = (error: unknown) => error instanceof ListNotFound;

/** The used parts of a failed call. The client's error also has the request with its token, which must not be logged. */
const FailedCall = v.object({
  config: v.looseObject({}),
  status: v.optional(v.number()),
  code: v.optional(v.union([v.string(), v.number()])),
});

/** The machine-readable reason, of the API (in the form before AIP-193) or of OAuth. */
const Reason = v.union([
  v.pipe(
    v.object({
      response: v.object({
        data: v.object({ error: v.object({ errors: v.array(v.object({ reason: v.string() })) }) }),
      }),
    }),
    v.transform(({ response }) => response.data.error.errors[0]?.reason),
  ),
  v.pipe(
    v.object({ response: v.object({ data: v.object({ error: v.string() }) }) }),
    v.transform(({ response }) => response.data.error),
  ),
]);

/** Returns a failed call as a fault, with its status and reason and nothing else of the response or the request. */
const faultOf = (error: unknown, call: GoogleCall): DirectoryFault => {
  const failed = v.safeParse(FailedCall, error);
  if (call === "token" && !failed.success)
    return new DirectoryFault(
      "key_file_unusable",
      "SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: its private key cannot sign",
    );
  const { cause } = Object(error) as Error;
  if (cause instanceof JsonLimitError)
    return new DirectoryFault("answer_malformed", `the directory: ${cause.message}`);
  const { status, code } = failed.success ? failed.output : {};
  const parsed = v.safeParse(Reason, error);
  const reason =
    parsed.success && /^\w{1,64}$/.test(parsed.output ?? "") ? parsed.output : undefined;
  const what = `${call === "token" ? "the token endpoint" : "the directory"}: ${[status ?? code ?? "no response", reason].filter(Boolean).join(" ")}`;
  if (call === "first_page" && status === 404) return new ListNotFound("answer_malformed", what);
  return new DirectoryFault(codeOf(status, reason, call), what);
};

const codeOf = (
  status: number | undefined,
  reason: string | undefined,
  call: GoogleCall,
): DirectoryFaultCode => {
  if (status === undefined) return "directory_unreachable";
  // Google also reports rate limits as 403.
  if (status === 429 || /(rateLimit|quota)Exceeded/i.test(reason ?? "")) return "rate_limited";
  if (status >= 500) return "directory_unavailable";
  if (call === "token") return "token_refused";
  return status === 401 || status === 403 ? "access_denied" : "answer_malformed";
};

/**
 * Reads every page of the users and of both role groups' members, including nested groups, into one snapshot. Throws `DirectoryFault` as
 * soon as a page fails or is malformed, because half a directory is no snapshot. Never retries.
 */
export const readGoogleDirectory = async (
  needs: GoogleDirectoryOptions,
): Promise<DirectorySnapshot> => {
  const { domain, apiUrl } = needs;
  const auth = createAuth(needs);
  const token = await auth.authorize().catch((error: unknown) => {
    throw faultOf(error, "token");
  });
  if (!token.access_token)
    throw new DirectoryFault("answer_malformed", "the token endpoint's response has no token");
  const api = admin({ version: "directory_v1", auth });
  // An option of each call: as an option of the whole API, the path of the URL would be dropped.
  const options = apiUrl === null ? {} : { rootUrl: apiUrl };
  const users = await readUsers(api, options);
  const admins = await readMembers(api, `svc-admin@${domain}`, options);
  const auditors = await readMembers(api, `svc-auditor@${domain}`, options);
  return { users, admins, auditors };
};

const createAuth = ({
  account,
  delegateEmail,
  signal,
  timeoutMs = 30_000,
}: GoogleDirectoryOptions): JWT => {
  const auth = new JWT({
    email: account.clientEmail,
    key: account.privateKeyPem,
    subject: delegateEmail,
    scopes,
    additionalClaims: { aud: account.tokenUri },
    transporterOptions: {
      signal,
      timeout: timeoutMs,
      redirect: "error",
      // The default, node-fetch, throws an abort that cannot be caught and would end core. This one has no limit of its own.
      fetchImplementation: async (...call) =>
        limitJson(await fetch(...call), jsonLimits.directoryPage),
    },
  });
  auth.transporter.interceptors.request.add({
    resolved: async (request) => {
      if (request.url.href === builtInTokenUrl) request.url = new URL(account.tokenUri);
      // Both libraries would retry on their own; the job decides about retries.
      return Object.assign(request, { retry: false, retryConfig: undefined });
    },
  });
  return auth;
};

/** Returns all users of the customer, of every domain. A user who moved between pages during the read appears once, as read last. */
const readUsers = async (api: Api, options: CallOptions): Promise<DirectoryUser[]> => {
  const byId = new Map<string, DirectoryUser>();
  const users = readPages(UsersPage, (page) =>
    api.users.list(
      {
        customer: "my_customer",
        orderBy: "email",
        maxResults: usersPerPage,
        fields: "kind,nextPageToken,users(id,primaryEmail,name,suspended,archived)",
        ...page,
      },
      options,
    ),
  );
  for await (const { id, primaryEmail, name, suspended, archived } of users)
    byId.set(id, { id, primaryEmail, displayName: name?.fullName ?? "", suspended, archived });
  return [...byId.values()];
};

/** Returns the ids of a group's users, without nested groups and external members; null for an unknown group. */
const readMembers = async (
  api: Api,
  groupKey: string,
  options: CallOptions,
): Promise<Set<string> | null> => {
  const userIds = new Set<string>();
  const members = readPages(MembersPage, (page) =>
    api.members.list(
      {
        groupKey,
        includeDerivedMembership: true,
        maxResults: membersPerPage,
        fields: "kind,nextPageToken,members(id,type)",
        ...page,
      },
      options,
    ),
  );
  try {
    for await (const { id, type } of members)
      if (type === "USER" && id !== undefined) userIds.add(id);
  } catch (error) {
    if (isNotFound(error)) return null;
    throw error;
  }
  return userIds;
};

/** No directory has control characters in ids or addresses. */
const id = v.pipe(v.string(), v.regex(/^[\x21-\x7e]{1,128}$/));
const address = v.pipe(v.string(), v.regex(/^[^\s\p{Cc}]{1,320}$/u));
const nextPageToken = v.optional(v.pipe(v.string(), v.nonEmpty()));

/** One page of a list. */
interface Page<Item> {
  items: readonly Item[];
  nextPageToken?: string | undefined;
}

/** A response of `users.list`. The API omits an empty list; then only `kind` distinguishes a page from another object. */
const UsersPage = v.pipe(
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
const MembersPage = v.pipe(
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
const readPages = async function* <Item>(
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
