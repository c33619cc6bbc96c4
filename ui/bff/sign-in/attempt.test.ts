import { expect, it } from "vitest";
import { Secret } from "#kit/secret.ts";
import { createUserAgent } from "#scripts/lab/user-agent.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import type { WebConfig } from "../config.ts";
import { createAttempts } from "./attempt.ts";

const origin = "https://fleet.example";
const callback = `${origin}/api/auth/callback/idp`;
const config = {
  secure: true,
  sessionSecrets: {
    secret: new Secret("a-session-secret-of-more-than-32-bytes"),
    previous: null,
  },
} as WebConfig;

const setUp = () => {
  const clock = createTestClock();
  const attempts = createAttempts({ config, clock, entropy: createSeededEntropy() });
  const browser = () => {
    const agent = createUserAgent();
    const keep = (cookies: readonly string[]) => {
      for (const cookie of cookies) agent.plant(origin, cookie);
    };
    return {
      agent,
      begin: async (returnTo = "/") => {
        const { attempt, cookies } = await attempts.begin(returnTo, agent.cookieHeader(callback));
        keep(cookies);
        return attempt;
      },
      resume: (state: string | null) => attempts.resume(state, agent.cookieHeader(callback)),
      end: (state: string | null) => keep(attempts.end(state)),
      names: () => agent.cookieHeader(callback).split("; ").filter(Boolean).length,
    };
  };
  return { attempts, browser };
};

it("is resumed by its state, and cleared alone and completely", async () => {
  const { begin, resume, end, names } = setUp().browser();
  const first = await begin("/one");
  const second = await begin("/two");
  expect(await resume(first.state)).toEqual(first);
  end(second.state);
  expect([await resume(first.state), await resume(second.state)]).toEqual([first, null]);
  end(first.state);
  expect(names()).toBe(0);
});

it("is one of at most five in a browser: a new one clears the oldest", async () => {
  const { begin, resume, names } = setUp().browser();
  const begun = [];
  for (let at = 0; at < 7; at++) begun.push(await begin(`/${at}`));
  const found = await Promise.all(begun.map(({ state }) => resume(state)));
  expect(found).toEqual([null, null, ...begun.slice(2)]);
  expect(names()).toBe(10);
});

it("A1: cannot be planted by another host of the domain, which cannot set a __Host- cookie", async () => {
  const { browser } = setUp();
  const attacker = browser();
  const victim = browser();
  const { state } = await attacker.begin();
  expect(await attacker.resume(state)).not.toBeNull();
  for (const pair of attacker.agent.cookieHeader(callback).split("; "))
    if (!pair.startsWith("__Host-")) victim.agent.plant(origin, `${pair}; Path=/api/auth; Secure`);
  expect(await victim.resume(state)).toBeNull();
  await victim.begin();
  expect(await victim.resume(state)).toBeNull();
});

it("A1: is not found for another state, one with the same prefix, or a malformed one", async () => {
  const { begin, resume } = setUp().browser();
  const { state } = await begin();
  const alike = `${state.slice(0, 16)}${"x".repeat(27)}`;
  // The gate compares the whole state.
  expect((await resume(alike))?.state).toBe(state);
  for (const other of ["x".repeat(43), state.slice(1), "", "a=b; Path=/", `${state}\r\n`, null])
    expect(await resume(other), String(other)).toBeNull();
});

it("A1: is not evicted by cookies that another host of the domain planted", async () => {
  const { agent, begin, resume } = setUp().browser();
  const attempt = await begin();
  for (let at = 0; at < 9; at++)
    agent.plant(origin, `__Secure-svc_sign_in_planted_${at}_______=x; Path=/api/auth; Secure`);
  await begin();
  expect(await resume(attempt.state)).toEqual(attempt);
});

it("clears no cookie with a foreign name", async () => {
  const { attempts } = setUp();
  const planted = Array.from({ length: 9 }, (_, at) => `__Host-svc_sign_in_odd\u00e9${at}=x`).join(
    "; ",
  );
  expect((await attempts.begin("/", planted)).cookies).toHaveLength(2);
  expect(attempts.end("a; Domain=evil")).toEqual([]);
});
