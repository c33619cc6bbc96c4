// Apart from address.ts: a collector loads no ipaddr.js.

/** Whether a secret may be sent to a URL: `https`, or `http` to this machine's loopback, without a user name or password. */
export const isConfidentialUrl = (text: string): boolean => {
  const url = URL.parse(text);
  if (url === null || url.username !== "" || url.password !== "") return false;
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopbackHost(url.hostname));
};

/** Whether a URL's `hostname` is this machine's loopback, by address or as `localhost`. */
export const isLoopbackHost = (hostname: string): boolean =>
  /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(hostname);
