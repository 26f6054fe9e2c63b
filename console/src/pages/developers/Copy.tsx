import { CheckOutlined, CopyOutlined } from "@ant-design/icons";
import { Button } from "antd";
import { useState } from "react";
import { useT } from "@/i18n";
import { writeClipboard } from "@/ui/clipboard";

/** `name` says what is copied; with a `label`, that stands on the button. */
export function Copy({ text, name, label }: { text: string; name: string; label?: string }) {
  const t = useT();
  const [isDone, setDone] = useState<boolean | null>(null);
  const copy = async () => {
    const isCopied = await writeClipboard(text);
    setDone(isCopied);
    if (isCopied) setTimeout(() => setDone(null), 2000);
  };
  return (
    <>
      <Button size="small" icon={isDone ? <CheckOutlined /> : <CopyOutlined />} aria-label={label ? name : undefined} onClick={() => void copy()}>
        {label ?? name}
      </Button>
      <span role="status" className={isDone === false ? "field-fault" : "visually-hidden"}>
        {isDone === null ? "" : t(isDone ? "copied" : "notCopied")}
      </span>
    </>
  );
}
