import { type PersonName, people } from "./people.ts";
import { createUserAgent, type UserAgent, type Visit } from "./user-agent.ts";

/** The dependencies of a sign-in in the lab. `account` is the subject of a person. */
interface SignIn {
  origin: string;
  account: string;
  returnTo?: string | undefined;
}

/** Signs in as a person does: the provider's page, its button, and back to web. Returns the last page. */
export const walkSignIn = async (
  agent: UserAgent,
  { origin, account, returnTo = "/" }: SignIn,
): Promise<Visit> => {
  const chooser = await agent.visit(
    `${origin}/api/auth/login?${new URLSearchParams({ return_to: returnTo })}`,
  );
  if (!chooser.url.pathname.startsWith("/interaction/")) return chooser;
  return agent.visit(chooser.url.href, {
    method: "POST",
    headers: { "Content-Type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ account }),
  });
};

/** Signs a person in with a new user agent and returns it. Throws the last page if that left no session. */
export const signInAnew = async (
  origin: string,
  name: PersonName,
  returnTo?: string,
): Promise<UserAgent> => {
  const agent = createUserAgent();
  const account = people[name].subject;
  const { url, status, text } = await walkSignIn(agent, { origin, account, returnTo });
  if ((agent.cookie("svc_session") ?? agent.cookie("__Host-svc_session")) === undefined)
    throw new Error(`no session: ${status} of ${url.href}: ${text}`);
  return agent;
};
