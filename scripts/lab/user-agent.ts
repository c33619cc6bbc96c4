import { parseCookie } from "undici";

/** An HTTP client that behaves like a browser: keeps cookies by host and path, follows redirects, posts forms. */
export interface UserAgent {
  /** Requests a URL and follows its redirects; `url` of the result is the last one. */
  visit(url: string, init?: RequestInit): Promise<Visit>;
  /** Sends one request with the cookies, and follows no redirect. */
  fetch(url: string, init?: RequestInit): Promise<Response>;
  /** Returns the value of a cookie; undefined when there is none. */
  cookie(name: string): string | undefined;
  /** Plants a cookie, as an attacker would. */
  plant(url: string, cookie: string): void;
  /** Returns the `Cookie` header of a request to this URL. */
  cookieHeader(url: string): string;
}

/** Where a visit ended. */
export interface Visit {
  url: URL;
  status: number;
  headers: Headers;
  text: string;
  /** Every URL that was requested, in order. */
  trail: readonly string[];
}

interface Kept {
  host: string;
  path: string;
  name: string;
  value: string;
}

const redirectsMax = 20;

/** Creates a user agent without cookies, over `send`, by default `fetch`. */
export const createUserAgent = (
  send: (url: string, init: RequestInit) => Promise<Response> = fetch,
): UserAgent => {
  let jar: Kept[] = [];

  const keep = (url: URL, header: string): void => {
    const cookie = parseCookie(header);
    if (cookie === null) throw new Error(`not a cookie: ${header}`);
    const { name, value, path = "/", maxAge, expires = Number.POSITIVE_INFINITY } = cookie;
    const { host } = url;
    jar = jar.filter((kept) => kept.host !== host || kept.path !== path || kept.name !== name);
    if (maxAge !== 0 && Number(expires) > Date.now()) jar.push({ host, path, name, value });
  };

  const cookieHeader = (text: string): string => {
    const { host, pathname } = new URL(text);
    return jar
      .filter(
        ({ host: of, path }) =>
          of === host && (pathname === path || pathname.startsWith(path.replace(/\/?$/, "/"))),
      )
      .map(({ name, value }) => `${name}=${value}`)
      .join("; ");
  };

  const fetchOnce: UserAgent["fetch"] = async (url, init = {}) => {
    const headers = new Headers(init.headers);
    const cookies = cookieHeader(url);
    if (cookies !== "") headers.set("Cookie", cookies);
    const response = await send(url, { ...init, headers, redirect: "manual" });
    for (const header of response.headers.getSetCookie()) keep(new URL(url), header);
    return response;
  };

  return {
    fetch: fetchOnce,
    visit: async (url, init = {}) => {
      const trail = [url];
      let response = await fetchOnce(url, init);
      for (
        let location = response.headers.get("location");
        location !== null;
        location = response.headers.get("location")
      ) {
        if (trail.length > redirectsMax) throw new Error(`redirected ${redirectsMax} times`);
        await response.body?.cancel();
        const next = new URL(location, trail.at(-1)).href;
        trail.push(next);
        response = await fetchOnce(next, { headers: { Accept: "text/html" } });
      }
      const { status, headers } = response;
      return {
        url: new URL(trail.at(-1) ?? url),
        status,
        headers,
        text: await response.text(),
        trail,
      };
    },
    cookie: (name) => jar.find((cookie) => cookie.name === name)?.value,
    plant: (url, cookie) => keep(new URL(url), cookie),
    cookieHeader,
  };
};
