import { createSignal, For, Match, onCleanup, Switch } from "solid-js";
import { ApiProblem } from "../api/api-client.ts";
import { type DownloadedFile, downloadFile } from "../api/download.ts";
import { Icon } from "../design/parts.tsx";
import { formatBytes } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";

interface Download {
  path: string;
  /** What the link says. */
  name: string;
  bytes: () => number;
  /** Undefined while it runs. */
  end: () => { saved: DownloadedFile } | { problem: ApiProblem } | undefined;
  stop(): void;
}

const links = 'a[download][href^="/api/core/"]';
const savedMs = 10_000;

/**
 * Downloads the files of every link with `download` on the page itself, so that a failure is reported here: the browser would write an
 * error page or half a file to disk. A click with a modifier stays the browser's.
 */
export const Downloads = () => {
  const { api } = usePageContext();
  const [downloads, setDownloads] = createSignal<readonly Download[]>([]);
  const remove = (download: Download) =>
    setDownloads((all) => all.filter((other) => other !== download));

  const start = (path: string, name: string): void => {
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
      (problem: unknown) => {
        if (stop.signal.aborted) return remove(download);
        if (!(problem instanceof ApiProblem)) throw problem;
        setEnd({ problem });
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
      {(download) => {
        const failed = () => {
          const end = download.end();
          return end && "problem" in end ? end.problem : undefined;
        };
        const saved = () => {
          const end = download.end();
          return end && "saved" in end ? end.saved : undefined;
        };
        return (
          <Switch
            fallback={
              <div class="banner">
                <span role="status">Exporting {download.name}</span> {formatBytes(download.bytes())}
                <button class="button" type="button" onClick={() => download.stop()}>
                  Cancel
                </button>
              </div>
            }
          >
            <Match when={saved()}>
              {(file) => (
                <p class="banner" role="status">
                  <Icon name="check" /> Exported {file().name}, {formatBytes(file().content.size)}.
                </p>
              )}
            </Match>
            <Match when={failed()}>
              {(problem) => (
                <div class="banner" role="alert">
                  <Icon name="warning" />
                  <span>
                    The export of {download.name} failed: {problem().message}. Nothing was saved.
                  </span>
                  <button
                    class="button"
                    type="button"
                    onClick={() => {
                      remove(download);
                      start(download.path, download.name);
                    }}
                  >
                    Try again
                  </button>
                  <button class="button" type="button" onClick={() => remove(download)}>
                    Close
                  </button>
                </div>
              )}
            </Match>
          </Switch>
        );
      }}
    </For>
  );
};

/** Gives a file to the browser, which asks or stores it as it does with every download. */
const save = ({ name, content }: DownloadedFile): void => {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser reads it after the click.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
};
