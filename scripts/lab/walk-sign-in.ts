import type { UserAgent, Visit } from "./user-agent.ts";

/** Signs in as a person does: the provider's page, its button, and back to web. Returns the last page. */
export const walkSignIn = async (
  agent: UserAgent,
  { origin, account, returnTo = "/" }: { origin: string; account: string; returnTo?: string },
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
