/** Returns a URL of a database over a unix socket as libpq's keywords and values, which programs in Go understand. */
export const libpqKeywords = (url: string): string => {
  const { hostname, port, username, pathname } = new URL(url);
  return `host=${decodeURIComponent(hostname)} port=${port} user=${username} dbname=${pathname.slice(1)}`;
};
