import { admin, type admin_directory_v1 } from "@googleapis/admin";
import { JWT } from "google-auth-library";
import { faultOf, isNotFound } from "./google-fault.ts";
import { MembersPage, readPages, UsersPage } from "./google-pages.ts";
import type { ServiceAccount } from "./service-account.ts";
import { DirectoryFault, type DirectorySnapshot, type DirectoryUser } from "./snapshot.ts";

/** How to read a customer's directory. */
export interface GoogleDirectoryOptions {
  account: ServiceAccount;
  /** The super admin whom the account acts for. */
  delegateEmail: string;
  /** Suffix of the role groups' names. */
  domain: string;
  /** Put before `/admin/directory/v1/…`; null: Google's own. */
  apiUrl: string | null;
  /** Ends the reading. */
  signal: AbortSignal;
  /** For each call; 30 s unless told. */
  timeoutMs?: number;
}

type Api = admin_directory_v1.Admin;

interface CallOptions {
  rootUrl?: string;
}

const scopeRoot = "https://www.googleapis.com/auth/admin.directory.";
const scopes = [`${scopeRoot}user.readonly`, `${scopeRoot}group.member.readonly`];

/** Where google-auth-library sends every assertion, whatever the key file says. */
const builtInTokenUrl = "https://oauth2.googleapis.com/token";

/** As many as the API gives on a page. */
const usersPerPage = 500;
const membersPerPage = 200;
/** Far beyond any page. */
const pageBytesMax = 64 * 1024 * 1024;

/**
 * Reads every page of the users and of both role groups' members, nested groups' included, into one snapshot. Throws `DirectoryFault`
 * as soon as a page fails or is not what it should be: there is no snapshot of half a directory. Nothing is tried twice.
 */
export const readGoogleDirectory = async (needs: GoogleDirectoryOptions): Promise<DirectorySnapshot> => {
  const { domain, apiUrl } = needs;
  const auth = createAuth(needs);
  const token = await auth.authorize().catch((error: unknown) => {
    throw faultOf(error, "token");
  });
  if (!token.access_token) throw new DirectoryFault("answer_malformed", "the token endpoint's answer holds no token");
  const api = admin({ version: "directory_v1", auth });
  // Given to each call: as an option of the API as a whole, a path in it would get lost.
  const options = apiUrl === null ? {} : { rootUrl: apiUrl };
  const users = await readUsers(api, options);
  const admins = await readMembers(api, `svc-admin@${domain}`, options);
  const auditors = await readMembers(api, `svc-auditor@${domain}`, options);
  return { users, admins, auditors };
};

const createAuth = ({ account, delegateEmail, signal, timeoutMs = 30_000 }: GoogleDirectoryOptions): JWT => {
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
      maxContentLength: pageBytesMax,
      // The default, node-fetch, throws an abort where nobody can catch it, and core with it.
      fetchImplementation: fetch,
    },
  });
  auth.transporter.interceptors.request.add({
    resolved: async (request) => {
      if (request.url.href === builtInTokenUrl) request.url = new URL(account.tokenUri);
      // Both libraries would retry on their own; how often and when is the job's to say.
      return Object.assign(request, { retry: false, retryConfig: undefined });
    },
  });
  return auth;
};

/** All users of the customer, of every domain it has. One that moved between pages while they were read is there once, as seen last. */
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

/** The ids of a group's users; null when there is no such group. Groups inside it, and outsiders, are in it and are nobody. */
const readMembers = async (api: Api, groupKey: string, options: CallOptions): Promise<Set<string> | null> => {
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
    for await (const { id, type } of members) if (type === "USER" && id !== undefined) found.add(id);
  } catch (error) {
    if (isNotFound(error)) return null;
    throw error;
  }
  return found;
};
