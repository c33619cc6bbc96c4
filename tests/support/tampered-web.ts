import { afterAll } from "vitest";
import { people } from "#scripts/lab/people.ts";
import { createUserAgent } from "#scripts/lab/user-agent.ts";
import { providerEnvironment } from "#scripts/lab/web-environment.ts";
import { startTamperingProvider } from "../fakes/tampering-provider.ts";
import { useTestWeb } from "./web.ts";

/** Starts web with an identity provider that the test tampers with, for the tests of a file; both are in one time. */
export const startTamperedWeb = async () => {
  let now = Date.now();
  const provider = await startTamperingProvider({ subject: people.admin.subject, now: () => now });
  const web = await useTestWeb({ env: providerEnvironment(provider) });
  now = web.clock.now();
  afterAll(() => provider.close());
  return {
    provider,
    web,
    now: () => now,
    pass: async (ms: number) => {
      await web.clock.advance(ms);
      now = web.clock.now();
    },
    /** Begins a sign-in. Returns what web asked the provider for, and the provider's redirect back. */
    begin: async (agent = createUserAgent(), query = "") => {
      const begun = await agent.fetch(`${web.origin}/api/auth/login${query}`);
      const asked = begun.headers.get("location") ?? "";
      return { asked: new URL(asked).searchParams, back: provider.authorize(asked) };
    },
  };
};
