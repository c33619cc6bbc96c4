import { createSignal, type JSX, onCleanup, Show } from "solid-js";
import { Ask } from "../chat/ask.tsx";
import { lazyPart } from "../design/lazy-part.tsx";
import { Notice } from "../design/report-parts.tsx";
import { OldData, SessionEnd, SessionGate } from "../session/session-gate.tsx";
import type { WantedFile } from "./downloads.tsx";
import { Menu, PagesOfPlace, Places } from "./navigation.tsx";
import { createPageTitle, productName } from "./page-title.ts";

// Loaded on demand: most visits download nothing.
const Downloads = lazyPart("The export", async () => (await import("./downloads.tsx")).Downloads);

const downloadLinks = 'a[download][href^="/api/core/"]';

/**
 * Downloads the file of every link with `download` on the page itself, so that a failure is reported here: the browser would write an
 * error page or half a file to disk. A click with a modifier stays the browser's.
 */
const DownloadsOfLinks = () => {
  const [wanted, setWanted] = createSignal<WantedFile>();
  const onClick = (event: MouseEvent) => {
    const { target, button, ctrlKey, metaKey, shiftKey, altKey } = event;
    const link =
      target instanceof Element ? target.closest<HTMLAnchorElement>(downloadLinks) : null;
    if (link === null || button !== 0 || ctrlKey || metaKey || shiftKey || altKey) return;
    event.preventDefault();
    setWanted({
      path: link.getAttribute("href") ?? "",
      name: link.download || (link.firstChild?.textContent ?? "").trim(),
    });
  };
  document.addEventListener("click", onClick);
  onCleanup(() => document.removeEventListener("click", onClick));
  return <Show when={wanted()}>{(file) => <Downloads wanted={file()} />}</Show>;
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
      <DownloadsOfLinks />
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
