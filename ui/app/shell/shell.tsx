import { useLocation } from "@solidjs/router";
import { createEffect, type JSX, Show } from "solid-js";
import { useSurroundings } from "../session/session-context.tsx";
import { SessionGate } from "../session/session-gate.tsx";
import { ThemeSwitch } from "../theme/theme-switch.tsx";

const product = "Collector fleet";
const titles: Readonly<Record<string, string>> = { "/": product, "/fleet": `Fleet · ${product}` };

/** The frame of every page: name, places, who is signed in, theme, and the page as `<main>` once the session is known. */
export const Shell = (props: { children?: JSX.Element }) => {
  const { known } = useSurroundings();
  const location = useLocation();
  const current = (path: string) => (location.pathname === path ? "page" : undefined);
  createEffect(() => {
    document.title = titles[location.pathname] ?? product;
  });
  return (
    <div class="shell">
      <a class="button skip-link" href="#content" rel="external">
        Skip to content
      </a>
      <header class="shell-bar">
        <a class="shell-name" href="/">
          <img src="/icon.svg" alt="" width="20" height="20" />
          {product}
        </a>
        <nav class="shell-nav" aria-label="Main">
          <a href="/" aria-current={current("/")}>
            Home
          </a>
          <a href="/fleet" aria-current={current("/fleet")}>
            Fleet
          </a>
        </nav>
        <div class="shell-end">
          <Show when={known()}>
            {(session) => (
              <form class="shell-session" method="post" action="/api/auth/logout">
                <span class="shell-person">{session().user.email}</span>
                <button class="button button-plain" type="submit">
                  Sign out
                </button>
              </form>
            )}
          </Show>
          <ThemeSwitch />
        </div>
      </header>
      <main id="content" class="shell-main" tabindex="-1">
        <SessionGate>{props.children}</SessionGate>
      </main>
    </div>
  );
};
