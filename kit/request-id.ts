import type { Clock } from "./clock.ts";
import { type Entropy, uuidv7 } from "./entropy.ts";

/** Reports whether a text is a request id: 1 to 64 of `[A-Za-z0-9._-]`. */
export const isRequestId = (text: string | undefined): text is string =>
  text !== undefined && /^[A-Za-z0-9._-]{1,64}$/.test(text);

/** Returns the id that a client has given its request, or a new one. */
export const requestIdOf = (
  given: string | undefined,
  needs: { clock: Pick<Clock, "now">; entropy: Entropy },
): string => (isRequestId(given) ? given : uuidv7(needs));
