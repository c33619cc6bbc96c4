/**
 * Returns the path of a request for Hono's router, percent-decoded as Hono does, or unchanged if it has invalid UTF-8: Hono decodes each part of
 * such a path by itself, which takes 80 ms for a path of 32 KB.
 */
export const requestPath = (request: Request): string => {
  const { pathname: sent } = new URL(request.url);
  // Some identity providers end the paths of SCIM with a slash.
  const pathname = sent.startsWith("/scim/") ? sent.replace(/\/$/, "") : sent;
  if (!pathname.includes("%")) return pathname;
  try {
    // An encoded percent sign stays encoded, so that a parameter of the path is decoded once.
    return decodeURI(pathname.replaceAll("%25", "%2525"));
  } catch {
    return pathname;
  }
};
