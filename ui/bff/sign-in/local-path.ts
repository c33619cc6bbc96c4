const pathLengthMax = 2048;
/** Any base does: what matters is whether it is still the base after parsing. */
const base = "http://local.invalid";

/**
 * A return address as a path of this origin, normalised, with its query and fragment; `/` for anything else (A6): another origin
 * (`//evil`, `/\evil`, also behind tabs, line feeds or dot segments), the API, the sign-in page itself, or over 2,048 characters.
 */
export const localPath = (address: string | undefined): string => {
  if (address === undefined || !address.startsWith("/") || !URL.canParse(address, base)) return "/";
  const url = new URL(address, base);
  const path = `${url.pathname}${url.search}${url.hash}`;
  // "/.//evil" parses to this origin and the path "//evil", which as a Location means another host.
  if (url.origin !== base || path.startsWith("//") || path.length > pathLengthMax) return "/";
  // No page's name needs an escape, and the router would read "/%61pi" as the API.
  return /^\/(api|login|[^/]*%[^/]*)(\/|$)/.test(url.pathname) ? "/" : path;
};
