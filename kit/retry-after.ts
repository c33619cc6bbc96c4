/** Parses `Retry-After`, seconds or a date (RFC 9110, 10.2.3), as milliseconds from `now`, at most `msMax`; null without one. */
export const readRetryAfter = (
  text: string | undefined,
  now: number,
  msMax: number,
): number | null => {
  if (text === undefined) return null;
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  return Number.isNaN(ms) ? null : Math.min(msMax, Math.max(0, ms));
};
