import { App, Button, type ButtonProps } from "antd";
import { useState } from "react";
import { Fault } from "./Fault";

interface Properties extends Pick<ButtonProps, "danger" | "icon" | "size" | "type"> {
  text: string;
  /** What a screen reader says, where the text alone does not name the row. */
  name?: string;
  /** Said when it worked. */
  done?: string;
  run: () => Promise<unknown>;
}

/** A button that acts at once. A failure stands beside it until the next try. */
export function Act({ text, name, done, run, size = "small", ...look }: Properties) {
  const [fault, setFault] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const { message } = App.useApp();
  const act = async () => {
    setBusy(true);
    setFault(null);
    try {
      await run();
      if (done) void message.success(done);
    } catch (error) {
      setFault(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Button {...look} size={size} aria-label={name} loading={isBusy} onClick={() => void act()}>
        {text}
      </Button>
      <Fault error={fault} />
    </>
  );
}
