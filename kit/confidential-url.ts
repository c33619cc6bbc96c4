// Separate from address.ts, so that a collector does not load ipaddr.js.

/** Reports whether a secret may be sent to a URL: `https`, or `http` to this machine's loopback, without a user name or password. */
export const isConfidentialUrl = (text: string): boolean => {
  const url = URL.parse(text);
  if (url === null || url.username !== "" || url.password !== "") return false;
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopbackHost(url.hostname));
};

/** Reports whether a URL's `hostname` is this machine's loopback, by address or as `localhost`. */
export const isLoopbackHost = (hostname: string): boolean =>
  /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(hostname);
