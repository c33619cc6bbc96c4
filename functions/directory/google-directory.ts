import { admin, type admin_directory_v1 } from "@googleapis/admin";
import { JWT } from "google-auth-library";
import { jsonLimits, limitJson } from "../../kit/foreign-json.ts";
import { faultOf, isNotFound } from "./google-fault.ts";
import { MembersPage, readPages, UsersPage } from "./google-pages.ts";
import type { ServiceAccount } from "./service-account.ts";
import { DirectoryFault, type DirectorySnapshot, type DirectoryUser } from "./snapshot.ts";

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
  const found = new Map<string, DirectoryUser>();
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
    found.set(id, { id, primaryEmail, displayName: name?.fullName ?? "", suspended, archived });
  return [...found.values()];
};

/** Returns the ids of a group's users, without nested groups and external members; null for an unknown group. */
const readMembers = async (
  api: Api,
  groupKey: string,
  options: CallOptions,
): Promise<Set<string> | null> => {
  const found = new Set<string>();
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
      if (type === "USER" && id !== undefined) found.add(id);
  } catch (error) {
    if (isNotFound(error)) return null;
    throw error;
  }
  return found;
};
