#!/bin/sh
# Prints one Job per item:  sh examples/patterns/expansion/expand.sh apple banana cherry | kubectl create -f -
# All of them go together:  kubectl delete jobs --selector=jobgroup=expansion
for item; do
  sed "s/\$ITEM/$item/g" "$(dirname "$0")/job-template.yaml"
  echo ---
done
