import { useLocation } from "@solidjs/router";
import { createSignal, For, type JSX, Match, onCleanup, Show, Switch } from "solid-js";
import { type ApiProblem, caughtProblem } from "../api/api-client.ts";
import { type DownloadedFile, downloadFile } from "../api/download.ts";
import { claimTab } from "../browser/stored-text.ts";
import { readTheme, showTheme, storeTheme, type Theme, themes } from "../browser/theme.ts";
import { Ask } from "../chat/ask.tsx";
import { Button } from "../design/buttons.tsx";
import { Icon } from "../design/icon.tsx";
import { Banner, Notice } from "../design/report-parts.tsx";
import { formatBytes, zoneName } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { OldData, SessionEnd, SessionGate } from "../session/session-gate.tsx";
import { createPageTitle, productName } from "./page-title.ts";

interface Download {
  path: string;
  /** What the link says. */
  name: string;
  bytes: () => number;
  /** Undefined while it runs. */
  end: () => { saved?: DownloadedFile; problem?: ApiProblem } | undefined;
  stop(): void;
}

const links = 'a[download][href^="/api/core/"]';
const savedMs = 10_000;

/**
 * Downloads the files of every link with `download` on the page itself, so that a failure is reported here: the browser would write an
 * error page or half a file to disk. A click with a modifier stays the browser's.
 */
const Downloads = () => {
  const { api } = usePageContext();
  const [downloads, setDownloads] = createSignal<readonly Download[]>([]);
  const remove = (download: Download) =>
    setDownloads((all) => all.filter((other) => other !== download));

  const start = (path: string, name: string) => {
    const stop = new AbortController();
    const [bytes, setBytes] = createSignal(0);
    const [end, setEnd] = createSignal<ReturnType<Download["end"]>>();
    const download: Download = { path, name, bytes, end, stop: () => stop.abort() };
    setDownloads((all) => [
      ...all.filter((other) => other.path !== path || !other.end()),
      download,
    ]);
    downloadFile(api, path, { signal: stop.signal, name, onProgress: setBytes }).then(
      (file) => {
        save(file);
        setEnd({ saved: file });
        setTimeout(() => remove(download), savedMs);
      },
      (error: unknown) => {
        if (stop.signal.aborted) return remove(download);
        setEnd({ problem: caughtProblem(error) });
      },
    );
  };
  const onClick = (event: MouseEvent) => {
    const link =
      event.target instanceof Element ? event.target.closest<HTMLAnchorElement>(links) : null;
    if (
      link === null ||
      event.button !== 0 ||
      event.ctrlKey ||
      event.metaKey ||
      event.shiftKey ||
      event.altKey
    )
      return;
    event.preventDefault();
    start(
      link.getAttribute("href") ?? "",
      link.download || (link.firstChild?.textContent ?? "").trim(),
    );
  };
  document.addEventListener("click", onClick);
  onCleanup(() => document.removeEventListener("click", onClick));

  return (
    <For each={downloads()}>
      {(download) => (
        <Switch
          fallback={
            <div class="banner">
              <span role="status">Exporting {download.name}</span> {formatBytes(download.bytes())}
              <Button onClick={() => download.stop()}>Cancel</Button>
            </div>
          }
        >
          <Match when={download.end()?.saved}>
            {(file) => (
              <p class="banner" role="status">
                <Icon name="check" /> Exported {file().name}, {formatBytes(file().content.size)}.
              </p>
            )}
          </Match>
          <Match when={download.end()?.problem}>
            {(problem) => (
              <Banner role="alert">
                <span>
                  The export of {download.name} failed: {problem().message}. Nothing was saved.
                </span>
                <Button
                  onClick={() => {
                    remove(download);
                    start(download.path, download.name);
                  }}
                >
                  Try again
                </Button>
                <Button onClick={() => remove(download)}>Close</Button>
              </Banner>
            )}
          </Match>
        </Switch>
      )}
    </For>
  );
};

/** Gives a file to the browser, which asks or stores it as it does with every download. */
const save = ({ name, content }: DownloadedFile) => {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser reads it after the click.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
};

/** A button that switches absolute times between UTC and the time of this machine. The choice applies at once and is stored. */
const TimeZoneSwitch = () => {
  const { times, coreNow } = usePageContext();
  const other = () => (times.zone() === "utc" ? "local" : "utc");
  return (
    <Button
      class="time-zone-switch"
      title={other() === "local" ? `Show local time (${zoneName(coreNow(), "local")})` : "Show UTC"}
      onClick={() => times.choose(other())}
    >
      <span class="visually-hidden">Times in </span>
      {times.zone() === "utc" ? "UTC" : "Local"}
    </Button>
  );
};

/** The entries of the navigation that need scope `audit`; each has the path of its name. */
const auditPages = [
  "Fleet",
  "Completeness",
  "Audit",
  "Configs",
  "Rollouts",
  "Enrollment",
  "Watches",
  "System",
];
/** On a narrow screen one line has no room for these: home leads there. */
const widePages = ["Watches", "System"];

/** The frame of every page: product, navigation, operator, theme, and the page as `<main>` once the session is known. */
export const Shell = (props: { children?: JSX.Element }) => {
  const { session } = usePageContext();
  const location = useLocation();
  /** A page below one of them, such as a host, marks it as current too. */
  const current = (path: string, below = `${path}/`) => {
    if (location.pathname === path) return "page";
    return location.pathname.startsWith(below) ? "true" : undefined;
  };
  const seesFleet = () => session()?.scopes.includes("audit") ?? true;
  return (
    <div class="shell">
      <a class="button skip-link" href="#content" rel="external">
        Skip to content
      </a>
      <header class="shell-bar row">
        <a class="shell-name state-mark" href="/">
          <img src="/icon.svg" alt="" width="20" height="20" />
          {productName}
        </a>
        <nav class="shell-nav" aria-label="Main">
          {/* On a narrow screen one line has no room for it: the product's name leads there too. */}
          <a href="/" aria-current={current("/")} data-wide={seesFleet() ? "" : undefined}>
            Home
          </a>
          {/* They keep their place, unseen, until the session is known: nothing moves then. */}
          <Show when={seesFleet()}>
            <For each={auditPages}>
              {(name) => {
                const path = `/${name.toLowerCase()}`;
                return (
                  <a
                    href={path}
                    aria-current={current(path, name === "Fleet" ? "/hosts/" : undefined)}
                    data-unknown={session() === undefined ? "" : undefined}
                    data-wide={widePages.includes(name) ? "" : undefined}
                  >
                    {name}
                  </a>
                );
              }}
            </For>
          </Show>
        </nav>
        <div class="shell-end">
          <Ask />
          <Show when={session()}>
            {(known) => (
              <form
                class="shell-session"
                method="post"
                action="/api/auth/logout"
                onSubmit={() => claimTab("")}
              >
                <span class="shell-person">{known().user.email}</span>
                <button class="button button-plain" type="submit">
                  Sign out
                </button>
              </form>
            )}
          </Show>
          <TimeZoneSwitch />
          <ThemeSwitch />
        </div>
      </header>
      <main id="content" class="shell-main" tabindex="-1">
        <SessionGate>{props.children}</SessionGate>
      </main>
      <section class="shell-notices" aria-label="Notices">
        <Downloads />
        <OldData />
        <SessionEnd />
      </section>
    </div>
  );
};

const themeNames: Record<Theme, string> = { system: "System", light: "Light", dark: "Dark" };

/** A radio button for each theme. The choice applies at once and is stored. */
const ThemeSwitch = () => {
  const [chosen, setChosen] = createSignal(readTheme());
  const choose = (theme: Theme) => {
    setChosen(theme);
    storeTheme(theme);
    showTheme(theme);
  };
  return (
    <fieldset class="theme-switch">
      <legend class="visually-hidden">Theme</legend>
      <For each={themes}>
        {(theme) => (
          <label title={`${themeNames[theme]} theme`}>
            <input
              type="radio"
              name="theme"
              value={theme}
              checked={chosen() === theme}
              onChange={() => choose(theme)}
            />
            <Icon name={theme} />
            <span class="visually-hidden">{themeNames[theme]}</span>
          </label>
        )}
      </For>
    </fieldset>
  );
};

/** The page of an unknown address. */
export const NoSuchPage = () => {
  createPageTitle(() => "No such page");
  return (
    <Notice level="h1" title="No such page" href="/" link="Home">
      <p>Nothing is at this address. Check that it is complete.</p>
    </Notice>
  );
};
