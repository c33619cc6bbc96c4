const pathLengthMax = 2048;
/** Any base works: the check is whether it is still the base after parsing. */
const base = "http://local.invalid";

/**
 * Returns a return address as a normalised path of this origin, with query and fragment. Returns `/` for anything else (A6): another
 * origin (`//evil`, `/\evil`, also behind tabs, line feeds or dot segments), the API, the sign-in page itself, over 2,048 characters.
 */
export const localPath = (address: string | undefined): string => {
  if (address === undefined || !address.startsWith("/") || !URL.canParse(address, base)) return "/";
  const url = new URL(address, base);
  const path = `${url.pathname}${url.search}${url.hash}`;
  // "/.//evil" parses to this origin and the path "//evil", which in a Location header is another host.
  if (url.origin !== base || path.startsWith("//") || path.length > pathLengthMax) return "/";
  // The router decodes "/%61pi" to the API, and no page needs an escape.
  return /^\/(api|login|[^/]*%[^/]*)(\/|$)/.test(url.pathname) ? "/" : path;
};
