import { isLoopbackHost } from "./loopback.ts";

/** Whether a secret may be sent there: `https`, or `http` to this machine's loopback; a URL that holds a user is neither. */
export const isConfidentialUrl = (text: string): boolean => {
  const url = URL.parse(text);
  if (url === null || url.username !== "" || url.password !== "") return false;
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopbackHost(url.hostname));
};
