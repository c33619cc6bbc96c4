const reenrollCodes = new Set([
  "certificate_unknown",
  "certificate_replaced",
  "certificate_expired",
]);

/** Returns the message of a failure, with what to do if core rejects this certificate until the host is enrolled again. */
export const withReenrollAdvice = (code: string | null | undefined, message: string): string =>
  code && reenrollCodes.has(code)
    ? `${message}; enroll this host again: svc-collector enroll --reenroll with a new bootstrap token (the queue and the config are kept)`
    : message;
