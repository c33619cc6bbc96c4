import { createSignal, For, type JSX, Match, onCleanup, Switch } from "solid-js";
import { type ApiProblem, caughtProblem } from "../api/api-client.ts";
import { type DownloadedFile, downloadFile } from "../api/download.ts";
import { Ask } from "../chat/ask.tsx";
import { Button } from "../design/buttons.tsx";
import { Icon } from "../design/icon.tsx";
import { Banner, Notice } from "../design/report-parts.tsx";
import { formatBytes } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { OldData, SessionEnd, SessionGate } from "../session/session-gate.tsx";
import { Menu, PagesOfPlace, Places } from "./navigation.tsx";
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

/** The frame of every page: product, places, the person's menu, and the page as `<main>` once the session is known. */
export const Shell = (props: { children?: JSX.Element }) => (
  <div class="shell">
    <a class="button skip-link" href="#content" rel="external">
      Skip to content
    </a>
    <header class="shell-bar row">
      <a class="shell-name state-mark" href="/">
        <img src="/icon.svg" alt="" width="20" height="20" />
        {productName}
      </a>
      <Places />
      <div class="shell-end">
        <Ask />
        <Menu />
      </div>
      <PagesOfPlace />
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

/** The page of an unknown address. */
export const NoSuchPage = () => {
  createPageTitle(() => "No such page");
  return (
    <Notice level="h1" title="No such page" href="/" link="Now">
      <p>Nothing is at this address. Check that it is complete.</p>
    </Notice>
  );
};
