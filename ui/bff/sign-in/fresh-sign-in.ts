import type { WebSession } from "../session.ts";

/** The address of the consent page of a program on a machine with a browser, and of its form. */
export const authorizePath = "/cli/authorize";
/** The address that a person opens to type a device's code. */
export const devicePath = "/device";

/** How long after a sign-in a person may let a program in: whoever has only a copy of the cookie cannot sign in. */
export const freshSeconds = 300;
/** What the provider is asked for: it leaves time to read the page. */
export const maxAgeSeconds = 60;

/** Whether a sign-in that returns to this path of web must be a fresh one. */
export const needsFreshSignIn = (returnTo: string): boolean =>
  [authorizePath, devicePath].includes(new URL(returnTo, "http://local.invalid").pathname);

/** Whether the person of a session signed in so shortly before `now`, in milliseconds, that they may let a program in. */
export const isFresh = ({ authenticatedAt }: WebSession, now: number): boolean =>
  now / 1000 - authenticatedAt <= freshSeconds;
