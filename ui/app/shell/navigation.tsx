import { useLocation } from "@solidjs/router";
import { createEffect, createSignal, For, on, Show } from "solid-js";
import { type Place, places } from "../browser/places.ts";
import { claimTab } from "../browser/stored-text.ts";
import { readTheme, showTheme, storeTheme, type Theme } from "../browser/theme.ts";
import { PopoverMenu } from "../design/buttons.tsx";
import { ChoiceField } from "../design/choice-field.tsx";
import { Icon } from "../design/icon.tsx";
import { type TimeZone, zoneName } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";

/** What is left of the places without scope `audit`. */
const openPlaces: readonly Place[] = [{ name: "Now", pages: { Overview: "/" } }];

const createNavigation = () => {
  const { session } = usePageContext();
  const location = useLocation();
  const seesFleet = () => session()?.scopes.includes("audit") ?? true;
  return {
    seesFleet,
    seen: () => (seesFleet() ? places : openPlaces),
    /** Entries keep their place, unseen, until the session is known: nothing moves then. */
    unknown: () => (session() === undefined ? "" : undefined),
    /** Returns how a link to a path is current; a record below it, such as a host of the fleet, marks it too. */
    current: (path: string) => {
      if (location.pathname === path) return "page";
      const below = path === "/fleet" ? "/hosts/" : `${path}/`;
      return location.pathname.startsWith(below) ? "true" : undefined;
    },
  };
};

/** The places of the navigation, each as a link to its first page. */
export const Places = () => {
  const { seen, unknown, current } = createNavigation();
  return (
    <nav class="shell-places" aria-label="Main" data-unknown={unknown()}>
      <For each={seen()}>
        {({ name, pages }) => {
          const [first = "", ...others] = Object.values(pages);
          return (
            <a
              href={first}
              aria-current={current(first) ?? (others.some(current) ? "true" : undefined)}
            >
              {name}
            </a>
          );
        }}
      </For>
    </nav>
  );
};

/** The pages of the place that is shown, if it has several. */
export const PagesOfPlace = () => {
  const { seen, unknown, current } = createNavigation();
  const shown = () =>
    seen().find(({ pages }) => {
      const paths = Object.values(pages);
      return paths.length > 1 && paths.some(current);
    });
  return (
    <Show when={shown()}>
      {(place) => (
        <nav class="shell-pages" aria-label={place().name} data-unknown={unknown()}>
          <PageLinks of={place()} />
        </nav>
      )}
    </Show>
  );
};

const PageLinks = (props: { of: Place }) => {
  const { current } = createNavigation();
  return (
    <For each={Object.entries(props.of.pages)}>
      {([name, path]) => (
        <a href={path} aria-current={current(path)}>
          {name}
        </a>
      )}
    </For>
  );
};

/** The person's menu: system, times, theme and sign-out; on a narrow screen every page too. */
export const Menu = () => {
  const { state, session } = usePageContext();
  const { seen, seesFleet, current } = createNavigation();
  const location = useLocation();
  const close = () => document.getElementById("menu")?.hidePopover();
  createEffect(on(() => location.pathname + location.hash, close, { defer: true }));
  return (
    <div data-unknown={state().status === "loading" ? "" : undefined}>
      <PopoverMenu
        id="menu"
        class="shell-menu"
        button="Menu"
        face={
          <>
            <span class="shell-person">{session()?.user.email}</span>
            Menu <Icon name="menu" />
          </>
        }
      >
        <nav class="shell-tree" aria-label="All pages">
          <For each={seen()}>
            {(place) => (
              <p>
                <span class="quiet">{place.name}</span>
                <PageLinks of={place} />
              </p>
            )}
          </For>
        </nav>
        <Show when={session()}>
          {(known) => (
            <>
              <p>
                <strong>{known().user.display_name}</strong>
                <span class="second-line">{known().user.email}</span>
              </p>
              <Show when={seesFleet()}>
                <a href="/system" aria-current={current("/system")}>
                  System
                </a>
              </Show>
              <a href="/#access">Your scopes</a>
            </>
          )}
        </Show>
        <Choices />
        <Show when={session()}>
          <form method="post" action="/api/auth/logout" onSubmit={() => claimTab("")}>
            <button class="button" type="submit">
              Sign out
            </button>
          </form>
        </Show>
      </PopoverMenu>
    </div>
  );
};

/** The choices of this browser, which apply at once and are stored: the zone of absolute times, and the theme. */
const Choices = () => {
  const { times, coreNow } = usePageContext();
  const [theme, setTheme] = createSignal(readTheme());
  return (
    <div class="row">
      <ChoiceField
        name="Times"
        choices={{ utc: "UTC", local: `Local, ${zoneName(coreNow(), "local")}` }}
        chosen={times.zone()}
        onChange={(zone) => times.choose(zone as TimeZone)}
      />
      <ChoiceField
        name="Theme"
        choices={{ system: "System", light: "Light", dark: "Dark" }}
        chosen={theme()}
        onChange={(chosen) => {
          storeTheme(chosen as Theme);
          showTheme(setTheme(chosen as Theme));
        }}
      />
    </div>
  );
};
