import type { WebSession } from "../session.ts";

/** The address of the consent page of a program on a machine with a browser, and of its form. */
export const authorizePath = "/cli/authorize";
/** The address that a person opens to type a device's code. */
export const devicePath = "/device";

/** How long after a sign-in a person may let a program in. Somebody with only a copy of the cookie cannot sign in. */
export const freshSeconds = 300;
/** How long after a sign-in a person may change something on the page: an incident takes some minutes. */
export const changeSeconds = 900;
/** The `max_age` that web requests from the provider; the rest of `freshSeconds` is time to read the page. */
export const maxAgeSeconds = 60;

/** Reports whether a sign-in that returns to this path must be a fresh one. */
export const needsFreshSignIn = (returnTo: string): boolean =>
  [authorizePath, devicePath].includes(new URL(returnTo, "http://local.invalid").pathname);

/** Reports whether the person of a session signed in within the last `seconds` before `now`, in milliseconds. */
export const isFresh = (
  { authenticatedAt }: WebSession,
  { now, seconds }: { now: number; seconds: number },
): boolean => now / 1000 - authenticatedAt <= seconds;
